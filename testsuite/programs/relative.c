// Pushes whose sub-paths count their ids from the frame: recursion through pointers and by name, on the way into an
// instrumented library and back out of it, and through code that is not instrumented; left by longjmp, and interrupted
// by a signal.
//# Chain leaf: show < step < show_after < step < show_after < step < main
//# Chain library: visit < step < show_after < step < main
//# Chain returned: show < step < visit < step < main
//# Chain deep: show < step < visit < step < recursive*3 < main
//# Chain variadic: vary < call_vary < call_vary < main
//# Chain sorted: compare < <qsort> < sort < step < recursive*2 < main
//# Chain both: show < step < compare < <qsort> < sort < step < visit < step < main
//# Chain thrown: jump < step < visit < step < jumping < main
//# Chain arrived: jumping < main
//# Chain after: show < step < jumping < main
//# Chain handler: handler < <signal> < ... < interrupted < step < recursive*2 < main
//# Chain inside: show < step < handler < <signal> < ... < interrupted < step < recursive*2 < main
//# Chain end: main
//# Library: parts/relative_library.c
#include "show.h"
#include "parts/relative.h"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

static volatile int sum;
static jmp_buf away;

NOINLINE int step(int n, const char *name, next *f, void *then) {
  int r = f(n, name, then);
  KEEP;
  return r;
}
NOINLINE static int show(int n, const char *name, void *then) { SHOW(name); KEEP; sum += then != NULL; return n; }
NOINLINE static int show_after(int n, const char *name, void *then) {
  int r = step(n - 1, name, n > 1 ? show_after : (next *)then, then);
  KEEP;
  return r;
}
NOINLINE static int recursive(int n, const char *name, next *f, void *then) {
  int r = n > 0 ? recursive(n - 1, name, f, then) : step(2, name, f, then);
  KEEP;
  return r + 1;
}
NOINLINE static int call_vary(int n, const char *name, ...) {
  static varying *volatile table[] = {vary, call_vary};
  int r = table[n](0, name);
  KEEP;
  return r + 1;
}
static const char *sorted_name;
static int compare(const void *x, const void *y) {
  if (!sum++) {
    if (*sorted_name == 's') SHOW(sorted_name);
    else step(0, sorted_name, show, NULL);
  }
  KEEP;
  return *(const int *)x - *(const int *)y;
}
NOINLINE static int sort(int n, const char *name, void *then) {
  int values[2] = {n, then != NULL};
  sum = 0;
  sorted_name = name;
  qsort(values, 2, sizeof values[0], compare);
  KEEP;
  return values[0];
}
NOINLINE static int jump(int n, const char *name, void *then) {
  SHOW(name);
  if (then == NULL) longjmp(away, n + 1);
  return n;
}
NOINLINE static void jumping(void) {
  if (setjmp(away) == 0) step(1, "thrown", visit, (void *)jump);
  else SHOW("arrived");
  step(1, "after", show, NULL);
  KEEP;
}
static void handler(int signal) {
  SHOW("handler");
  step(signal, "inside", show, NULL);
  KEEP;
}
NOINLINE static int interrupted(int n, const char *name, void *then) {
  raise(SIGUSR1);
  KEEP;
  return n + (then != NULL) + *name;
}

int main(void) {
  signal(SIGUSR1, handler);
  step(2, "leaf", show_after, (void *)show);
  step(1, "library", show_after, (void *)visit);
  step(0, "returned", visit, (void *)show);
  recursive(2, "deep", visit, (void *)show);
  call_vary(1, "variadic");
  recursive(1, "sorted", sort, NULL);
  step(0, "both", visit, (void *)sort);
  jumping();
  recursive(1, "interrupt", interrupted, NULL);
  SHOW("end");
  return 0;
}
