// Additions, pushes in loops, recursion, callbacks, jump tables, inlined calls, captures, leaves of the C library.
#include "step.h"
#include <setjmp.h>

volatile int sum;
static int values[24];
static char buffers[2][256];
static jmp_buf environment;

NOINLINE static void leaf(int n) { sum += n; }
static inline __attribute__((always_inline)) int inlined(int n) { leaf(n); KEEP; return n + sum; }
NOINLINE static int a(int n) { leaf(n); KEEP; leaf(n + 1); KEEP; sum++; return inlined(n + 2) + inlined(sum); }
NOINLINE static int recursive(int n) {
  int r = n;
  if (n > 0) r += recursive(n - 1);
  KEEP;
  r += a(n);
  KEEP;
  if (n > 2) r += recursive(n - 3);
  KEEP;
  return r;
}
NOINLINE static int compare(const void *x, const void *y) { a(1); KEEP; return *(const int *)x - *(const int *)y; }

NOINLINE static int cases(int n) {
  switch (n) {
    case 0: leaf(1); KEEP; break;
    case 1: a(1); KEEP; leaf(2); KEEP; break;
    case 2: sum += recursive(1); KEEP; break;
    case 3: leaf(3); KEEP; // and on
    case 4: a(4); KEEP; break;
    case 5: for (int i = 0; i < 3; i++) { leaf(i); KEEP; } break;
    case 6: memset(buffers[0], n, sizeof buffers[0]); memcpy(buffers[1], buffers[0], (size_t)sum % 200); break;
    default: return n;
  }
  return a(n) + n;
}

NOINLINE static int seldom(int n, void (*f)(int)) {
  a(n);
  KEEP;
  if (__builtin_expect(n > 3, 0)) { sum += seldom(n - 1, f); KEEP; }
  if (__builtin_expect(n == 4, 0)) { qsort(values, 3, sizeof values[0], compare); KEEP; }
  if (__builtin_expect(n == 5, 0)) { f(n); KEEP; }
  return n;
}

NOINLINE static void loop(int n, void (*f)(int)) {
  for (int i = 0; i < n; i++) { f(i); leaf(i); f(i + 1); KEEP; }
}

NOINLINE static void jumper(int n) { a(n); KEEP; longjmp(environment, 1); }
NOINLINE static int jumps(int n) {
  volatile int rounds = 0;
  if (setjmp(environment) == 0) { a(n); KEEP; }
  if (rounds++ < 2) jumper(n);
  a(n + 1);
  KEEP;
  return rounds;
}

NOINLINE static void many(int n, double d, const char *format, ...) {
  char text[128], aligned[64] __attribute__((aligned(64)));
  snprintf(text, sizeof text, format, n, d);
  aligned[0] = text[0];
  char *big = (char *)__builtin_alloca((size_t)n * 16 + 16);
  big[0] = aligned[0];
  a(big[0] & 3);
  KEEP;
  sum += big[0];
}

NOINLINE static void work(int n) {
  a(n);
  KEEP;
  for (int i = 0; i < 8; i++) { sum += cases(i); KEEP; }
  sum += recursive(4);
  KEEP;
  loop(3, leaf);
  KEEP;
  sum += seldom(5, leaf);
  KEEP;
  for (int i = 0; i < 12; i++) values[i] = i * 7 % 12;
  qsort(values, 12, sizeof values[0], compare);
  KEEP;
  sum += (int)pcce_context() + jumps(n);
  KEEP;
  many(n, 2.5, "%d %f");
  char token[256];
  sum += (int)pcce_token(token, sizeof token);
  char *copy = strdup(token);
  free(copy);
  KEEP;
}

#ifdef LIBRARY
int run(int argc, char **argv);
#define main run
#endif
int main(int argc, char **argv) {
  (void)argv;
  step_begin();
  STEP_ON;
  work(argc);
  KEEP;
  STEP_OFF;
  step_end();
  return 0;
}
