// Pushes that are expected to be seldom go through functions of the pass's own, which no context shows: recursion,
// calls through pointers, with few and with many arguments, variable ones too, callbacks of the C library, and calls
// that are left by longjmp.
//# Chain again: again < seldom < seldom < main
//# Chain pointer: callee < through < seldom < main
//# Chain recursive: callee < through < callee < through < seldom < main
//# Chain crowd: crowd < seldom < crowd < seldom < main
//# Chain varied: vary < vary < seldom < main
//# Chain sorted: compare < <qsort> < sort < main
//# Chain jumped: jumps < main
//# Chain handler: handler < <signal> < ... < seldom < main
//# Chain after: again < main
#include "show.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>

#define SELDOM(condition) __builtin_expect(condition, 0)

static volatile int sum;
static jmp_buf away;
typedef double callable(int n, const char *name, double x);

NOINLINE static void again(const char *name) { SHOW(name); KEEP; }

NOINLINE static double through(int n, const char *name, callable *f) {
  double r = n;
  if (SELDOM(n > 0)) { r = f(n - 1, name, 0.5) + 1; KEEP; }
  return r;
}
NOINLINE static double callee(int n, const char *name, double x);
static callable *volatile callees[] = {callee, NULL};
NOINLINE static double callee(int n, const char *name, double x) {
  if (SELDOM(n > 0)) { x += through(n, name, callees[0]); KEEP; }
  else SHOW(name);
  return x;
}

NOINLINE static int seldom(int n, const char *name);
// Not all of the arguments are in registers.
NOINLINE static int crowd(int a, int b, int c, int d, int e, int f, int g, int n, const char *name) {
  if (SELDOM(n > 0)) { a += seldom(n, name); KEEP; }
  else SHOW(name);
  return a + b + c + d + e + f + g;
}
NOINLINE static int vary(const char *name, int n, ...) {
  va_list list;
  va_start(list, n);
  int r = va_arg(list, int);
  r += (int)va_arg(list, double);
  va_end(list);
  if (SELDOM(n > 0)) { r += vary(name, n - 1, r, 2.5); KEEP; }
  else SHOW(name);
  return r;
}
NOINLINE static int seldom(int n, const char *name) {
  switch (*name) {
  case 'a':
    if (SELDOM(n > 0)) { sum += seldom(n - 1, name); KEEP; }
    else again(name);
    break;
  case 'p':
  case 'r':
    sum += (int)through(n, name, callees[0]);
    KEEP;
    break;
  case 'c': sum += crowd(1, 2, 3, 4, 5, 6, 7, n - 1, name); KEEP; break;
  case 'v': sum += vary(name, n, 1, 1.5); KEEP; break;
  case 'j':
    if (SELDOM(n > 0)) { sum += seldom(n - 1, name); KEEP; }
    else longjmp(away, 1);
    break;
  case 'h':
    if (SELDOM(n > 0)) { raise(SIGUSR1); KEEP; }
    break;
  }
  return n;
}

static int compare(const void *x, const void *y) {
  if (!sum++) SHOW("sorted");
  KEEP;
  return *(const int *)x - *(const int *)y;
}
NOINLINE static void sort(int n) {
  int values[2] = {n, 0};
  sum = 0;
  if (SELDOM(n > 0)) { qsort(values, 2, sizeof values[0], compare); KEEP; }
}
NOINLINE static void jumps(void) {
  if (setjmp(away) == 0) { sum += seldom(3, "jumped"); KEEP; }
  SHOW("jumped");
}
static void handler(int signal) { (void)signal; SHOW("handler"); KEEP; }

int main(int argc, char **argv) {
  (void)argv;
  sum += seldom(argc, "again");
  sum += seldom(argc, "pointer");
  sum += seldom(argc + 1, "recursive");
  sum += seldom(argc + 1, "crowd");
  sum += seldom(argc, "varied");
  sort(argc);
  jumps();
  signal(SIGUSR1, handler);
  sum += seldom(argc, "handler");
  again("after");
  KEEP;
  return 0;
}
