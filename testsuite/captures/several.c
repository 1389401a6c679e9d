// Threads, handlers in handlers, children, and code without the pass.
#include <pcce.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
NOINLINE static void take(void) {
  char token[4096];
  if (pcce_token(token, sizeof token) >= sizeof token) abort();
}
NOINLINE static void recursive(int n) {
  if (n > 0) recursive(n - 1);
  __asm__ volatile("" ::: "memory");
  take();
}
static void inner(int signal) { take(); (void)signal; }
static void outer(int signal) { recursive(2); raise(SIGUSR2); take(); (void)signal; }
static int compare(const void *a, const void *b) { take(); return *(const int *)a - *(const int *)b; }
static void *work(void *argument) {
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof *numbers, compare);
  recursive(3);
  return argument;
}
int main(void) {
  signal(SIGUSR1, outer);
  signal(SIGUSR2, inner);
  take();
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  raise(SIGUSR1);
  fflush(stdout);
  if (fork() == 0) { recursive(4); _exit(0); }
  wait(NULL);
  // It closes what is none of its own, and uses the numbers.
  for (int i = 3; i < 64; i++) close(i);
  if (!freopen("/dev/null", "r", stdin)) return 2;
  recursive(1);
  puts("end");
  return 0;
}
