// A pointer with three targets, of which one is hot.
#include <pcce.h>
#include <stdio.h>
#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")
static int contexts;
NOINLINE static void leaf(void) { contexts += pcce_context() != 0; KEEP; }
NOINLINE static void hot(int n) { leaf(); KEEP; (void)n; }
NOINLINE static void warm(int n) { leaf(); KEEP; (void)n; }
NOINLINE static void cold(int n);
static void (*volatile targets[3])(int) = {hot, warm, cold};
NOINLINE static void call(int n) { targets[n % 50 == 49 ? 2 : n % 8 == 7](n); KEEP; }
NOINLINE static void cold(int n) { call(n - 1); KEEP; }
int main(void) {
  for (int i = 0; i < 100; i++) call(i);
  printf("%d\n", contexts);
  return 0;
}
