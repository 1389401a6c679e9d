// Threads that are stopped anywhere, for core files: in leaf functions, jump tables, recursion, calls through
// pointers, the C library, and the runtime.
#include <pcce.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")

void writer_begin(const char *, int, int);
void writer_add(void);
int writer_goes_on(void);

static __thread volatile int sum;

NOINLINE static int leaf(int n) {
  for (int i = 0; i < 20; i++) sum += n ^ i;
  return sum;
}
NOINLINE static int both(int n) { int one = leaf(n); KEEP; return one + leaf(n + 1); }
NOINLINE static int recursive(int n) {
  int r = n > 0 ? recursive(n - 1) : both(n);
  KEEP;
  if (n > 2) r += recursive(n - 3);
  KEEP;
  return r;
}
NOINLINE static int cases(int n) {
  switch (n) {
    case 0: sum = leaf(1); KEEP; break;
    case 1: sum ^= both(1) + leaf(2); KEEP; break;
    case 2: sum += recursive(1); KEEP; break;
    case 3: sum -= leaf(3); KEEP; // and on
    case 4: sum *= both(4); KEEP; break;
    case 5: for (int i = 0; i < 3; i++) { sum += leaf(i) * i; KEEP; } break;
    case 6: sum += leaf(6) / 3; KEEP; break;
    case 7: sum += recursive(2) - leaf(7); KEEP; break;
    case 8: sum = both(8) & 7; KEEP; break;
    case 9: sum = leaf(sum) | 9; KEEP; break;
    case 10: sum = both(sum) | leaf(10); KEEP; break;
    case 11: sum = leaf(sum) | both(11); KEEP; break;
    case 12: sum = leaf(12) % 100; KEEP; break;
    case 13: sum = both(13) << 1; KEEP; break;
    case 14: sum = recursive(3) ^ leaf(14); KEEP; break;
    case 15: sum ^= leaf(15) - leaf(sum); KEEP; break;
    default: return n;
  }
  return both(n) + n;
}
NOINLINE static int compare(const void *x, const void *y) {
  int difference = *(const int *)x - *(const int *)y;
  sum += leaf(difference);
  KEEP;
  return difference;
}
static int (*volatile functions[])(int) = {leaf, both, recursive, cases};
NOINLINE static int through(int n) { int r = functions[n & 3](n & 15); KEEP; return r; }
NOINLINE static int taken(void) {
  char token[2048];
  size_t length = pcce_token(token, sizeof token);
  KEEP;
  return (int)length + (int)pcce_context();
}
NOINLINE static int work(int n) {
  int values[12];
  char text[64];
  for (int i = 0; i < 12; i++) values[i] = (i * 7 + n) % 12;
  qsort(values, 12, sizeof *values, compare);
  KEEP;
  int r = cases(n & 15) + recursive(3) + through(n) + taken();
  KEEP;
  r += snprintf(text, sizeof text, "%d %f", r, (double)n);
  return r;
}
NOINLINE static void run(void) {
  writer_add();
  for (int n = 0; writer_goes_on(); n++) { work(n); KEEP; }
}
static void *thread(void *argument) { run(); return argument; }

int main(int argc, char **argv) {
  pthread_t threads[2];
  if (argc < 3) return 2;
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, thread, NULL);
  writer_begin(argv[1], atoi(argv[2]), 3);
  run();
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
