/* Time that is spent in known contexts, in two threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

static volatile unsigned long sink;
NOINLINE static void spin(long n) {
  volatile unsigned long own = 0; /* Threads that write the same line would slow each other down. */
  for (long i = 0; i < n * 1000000; i++) own += (unsigned long)i;
}
NOINLINE static void little(void) {
  spin(40);
  sink++;
}
NOINLINE static void much(void) {
  spin(160);
  sink++;
}
static int compare(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}
NOINLINE static void sort(void) {
  int n = 800000, *values = malloc(sizeof *values * (unsigned)n);
  for (int i = 0; i < n; i++) values[i] = rand();
  qsort(values, (unsigned)n, sizeof *values, compare);
  free(values);
}
static void *thread(void *argument) {
  spin(80);
  return argument;
}
int main(void) {
  pthread_t other;
  if (pthread_create(&other, NULL, thread, NULL)) return 1;
  little();
  much();
  sort();
  pthread_join(other, NULL);
  puts("end");
  return 0;
}
