#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t both;
__attribute__((noinline)) static void stop(void) { pthread_barrier_wait(&both); for (;;) pause(); }
static inline void detail(void) { stop(); __asm__ volatile(""); }
static int by_size(const void *a, const void *b) {
  detail();
  return *(const int *)a - *(const int *)b;
}
static void *worker(void *argument) {
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof *numbers, by_size);
  return argument;
}
__attribute__((noinline)) static int deep(int n, int (*next)(int)) {
  if (n > 0) return next(n - 1) + 1;
  stop();
  return 0;
}
static int again(int n) { return deep(n, again) * 2; }
int main(void) {
  pthread_t thread;
  pthread_barrier_init(&both, 0, 2);
  pthread_create(&thread, 0, worker, 0);
  return again(1);
}
