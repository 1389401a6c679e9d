// ways KIND STEPS PLACE SEED VALUE: STEPS calls of one of two functions, as the seed decides; and behind PLACE of them
// something of the kind, for which there is a value.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "witness.h"

#define KEEP __asm__ volatile("")
#define NOINLINE __attribute__((noinline))

NOINLINE static void odd(void) { KEEP; }
NOINLINE static void even(void) {
  KEEP;
#ifdef ANOTHER_BUILD
  odd();
#endif
}
NOINLINE static void deep(int depth) {
  KEEP;
  if (depth > 0)
    deep(depth - 1);
  KEEP;
}

// Each bit is a call of one of two functions.
NOINLINE static void take(unsigned long bits, int count) {
  for (int i = 0; i < count; i++)
    if (bits >> i & 1)
      odd();
    else
      even();
}

NOINLINE static void walk(unsigned long steps, unsigned long seed) {
  for (unsigned long i = 0; i < steps; i++) {
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    take(seed >> 63, 1);
  }
}

static atomic_int items;
static const char *kind;
static unsigned long steps, seed;

// Takes what no other thread has taken (`queue`), or every second one (`threads`).
static void *worker(void *argument) {
  int number = *(int *)argument;
  witness_thread(number);
  if (!strcmp(kind, "queue")) {
    while (atomic_fetch_add(&items, 1) < 300)
      walk(100, seed);
  } else {
    for (int i = number % 2; i < 300; i += 2)
      walk(100, seed + (unsigned long)i);
  }
  return NULL;
}

static atomic_int signals;
static void handler(int number) {
  (void)number;
  odd();
  if (!strcmp(kind, "exits"))
    exit(0);
  atomic_fetch_add(&signals, 1);
}

NOINLINE static void special(unsigned long value) {
  struct timespec now;
  unsigned long bits = 0;
  if (!strcmp(kind, "flip"))
    take(value & 1, 1);
  else if (!strcmp(kind, "swap"))
    take(value & 1 ? 1 : 2, 2);
  else if (!strcmp(kind, "longer"))
    walk(value & 1, seed);
  else if (!strcmp(kind, "deeper"))
    deep(3 + (int)(value & 1));
  else if (!strcmp(kind, "seed"))
    walk(64, value);
  else if (!strcmp(kind, "input")) {
    for (int c; (c = getchar()) != EOF;)
      take((unsigned long)c, 7);
  } else if (!strcmp(kind, "time")) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    take((unsigned long)now.tv_nsec, 24);
  } else if (!strcmp(kind, "random")) {
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
      abort();
    take(bits, 10);
  } else if (!strcmp(kind, "process"))
    take((unsigned long)getpid(), 22);
  else if (!strcmp(kind, "address"))
    take((unsigned long)&now >> 4, 20);
  else if (!strcmp(kind, "unused")) {
    // Values that differ between runs, but decide nothing.
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
      abort();
    bits ^= (unsigned long)now.tv_nsec ^ (unsigned long)getpid() ^ (unsigned long)&now;
    static volatile unsigned long sink;
    sink = bits;
  } else if (!strcmp(kind, "queue") || !strcmp(kind, "threads")) {
    pthread_t threads[2];
    int numbers[2] = {1, 2};
    for (int i = 0; i < 2; i++)
      if (pthread_create(&threads[i], NULL, worker, &numbers[i]))
        abort();
    for (int i = 0; i < 2; i++)
      pthread_join(threads[i], NULL);
  } else if (!strcmp(kind, "timer")) {
    signal(SIGALRM, handler);
    struct itimerval soon = {.it_value = {.tv_usec = 1000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    while (!atomic_load(&signals))
      walk(1, seed);
  } else if (!strcmp(kind, "signals") || !strcmp(kind, "exits")) {
    signal(SIGALRM, handler);
    for (int i = 0; i < 3; i++)
      raise(SIGALRM);
  } else if (!strcmp(kind, "children")) {
    pid_t child = fork();
    if (child == 0) {
      walk(2000, seed);
      exit(0);
    }
    waitpid(child, NULL, 0);
  } else if (strcmp(kind, "build"))
    abort();
}

int main(int argc, char **argv) {
  if (argc != 6)
    return 2;
  kind = argv[1];
  steps = strtoul(argv[2], NULL, 10);
  unsigned long place = strtoul(argv[3], NULL, 10);
  seed = strtoul(argv[4], NULL, 10);
  walk(place, seed);
  special(strtoul(argv[5], NULL, 10));
  walk(steps - place, seed + 1);
  return 0;
}

void *const witness_functions[] = {odd, even, deep, take, walk, worker, handler, special, main, NULL};
