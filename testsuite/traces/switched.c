// Each thread calls functions in a sequence that only its number decides. Recording is switched on and off by a timer's
// signal.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define OUT __attribute__((noinline))

static volatile int sum;

OUT static void c0(int n) {
  sum += n;
}
OUT static void c1(int n) {
  sum -= n;
}
OUT static int c2(int n) {
  if (n & 8)
    c0(n);
  return n;
}
OUT static void c3(int n) {
  for (int i = 0; i < (n & 3); i++)
    c1(n);
}
static void (*volatile pointers[2])(int) = {c1, c3};

static int compare(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}

OUT static void step(unsigned n) {
  unsigned h = n * 2654435761u >> 7;
  switch (h % 6) {
  case 0:
    c0(1);
    break;
  case 1:
    c2(h >> 3);
    break;
  case 2:
    c3(h >> 3);
    break;
  case 3:
    pointers[h >> 4 & 1](h >> 5);
    break;
  case 4: {
    int some[4] = {3, (int)(h >> 3 & 7), 1, 2};
    qsort(some, 4, sizeof *some, compare);
    break;
  }
  default:
    c1(2);
  }
}

static void *run(void *argument) {
  unsigned seed = *(unsigned *)argument;
  for (unsigned n = 0; n < 60000; n++)
    step(seed + n);
  return NULL;
}

int main(int count, char **words) {
  (void)count;
  struct itimerval every = {{0, atoi(words[1])}, {0, atoi(words[1])}}, never = {{0, 0}, {0, 0}};
  unsigned seeds[2] = {1000, 90000000};
  pthread_t thread;
  setitimer(ITIMER_REAL, &every, NULL);
  pthread_create(&thread, NULL, run, &seeds[1]);
  run(&seeds[0]);
  pthread_join(thread, NULL);
  setitimer(ITIMER_REAL, &never, NULL);
  puts("done");
  return 0;
}
