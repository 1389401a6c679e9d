// Does the same in each run but for one thing, which the first argument names. `both` is two decisions far from each
// other, each by a coin of its own; `order` does the same calls in another order.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP __asm__ volatile("")
__attribute__((noinline)) static int odd(int n) {
  KEEP;
  return n * 3 + 1;
}
__attribute__((noinline)) static int even(int n) {
  KEEP;
  return n / 2;
}

// Some thousands of bits that do not depend on anything.
__attribute__((noinline)) static int work(int n) {
  for (int i = 0; i < 20000; i++)
    n = n & 1 ? odd(n) : n < 2 ? 97 : even(n);
  return n;
}

static const char *what;
static const char *counter;

// How often the program was run before, by a file that each run makes longer.
static int runs(void) {
  FILE *file = fopen(counter, "a+");
  if (!file)
    abort();
  fseek(file, 0, SEEK_END);
  int count = (int)ftell(file);
  fputc('x', file);
  fclose(file);
  return count;
}

static void *thread(void *n) {
  work(3);
  if (*(int *)n)
    odd(1);
  return NULL;
}

static void handler(int signal) { even(signal); }

int main(int argc, char **argv) {
  what = argc > 1 ? argv[1] : "nothing";
  counter = argc > 2 ? argv[2] : "/dev/null";
  int is = argc > 2 ? runs() : 0;
  int sum = work(7);
  if (!strcmp(what, "pid"))
    for (int i = 0; i < 22; i++)
      sum += getpid() >> i & 1 ? odd(i) : even(i);
  if (!strcmp(what, "run") && is == 1)
    sum += odd(2);
  if (!strcmp(what, "time")) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (int i = 0; i < 16; i++)
      sum += now.tv_nsec >> i & 1 ? odd(i) : even(i);
  }
  if (!strcmp(what, "random")) {
    unsigned bits = 0;
    getrandom(&bits, sizeof bits, 0);
    for (int i = 0; i < 32; i++)
      sum += bits >> i & 1 ? odd(i) : even(i);
  }
  if (!strcmp(what, "both") && is % 2)
    sum += odd(3);
  if (!strcmp(what, "order"))
    for (int i = 0; i < 8; i++)
      sum += (i + is) % 8 < 4 ? odd(i) : even(i);
  if (!strcmp(what, "longer"))
    for (int i = 0; i < is; i++)
      sum += work(i);
  if (!strcmp(what, "thread") || !strcmp(what, "threads")) {
    int different = !strcmp(what, "thread") && is == 2;
    pthread_t threads[3];
    int no = 0;
    for (int i = 0; i < 3; i++)
      pthread_create(&threads[i], NULL, thread, i == 1 ? &different : &no);
    for (int i = 0; i < 3; i++)
      pthread_join(threads[i], NULL);
  }
  if (!strcmp(what, "more-threads") && is == 1) {
    pthread_t one;
    int no = 0;
    pthread_create(&one, NULL, thread, &no);
    pthread_join(one, NULL);
  }
  if (!strcmp(what, "child") || !strcmp(what, "children")) {
    pid_t child = fork();
    if (child == 0) {
      work(9);
      if (!strcmp(what, "child") && is == 2)
        odd(4);
      exit(0);
    }
    waitpid(child, NULL, 0);
  }
  if (!strcmp(what, "signal") || !strcmp(what, "signals")) {
    signal(SIGUSR1, handler);
    if (strcmp(what, "signal") || is != 1)
      raise(SIGUSR1);
  }
  if (!strcmp(what, "longest"))
    for (int i = 0; i < 30; i++)
      sum += work(i);
  sum += work(11);
  if (!strcmp(what, "both") && is / 2 % 2)
    sum += even(3);
  if (!strcmp(what, "end") && is == 1)
    return 3;
  if (!strcmp(what, "crash") || (!strcmp(what, "crashes") && is == 1))
    *(volatile int *)8 = 1;
  if (!strcmp(what, "killed") && is == 1)
    raise(SIGKILL);
  printf("%s\n", sum == 4711 ? "lucky" : "done");
  return 0;
}
