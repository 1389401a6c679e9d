// Calls through pointers in cycles, compared with the targets that their type suggests: expected ones, one of another
// type, a library's function, and one of a shared library.
//# Chain first: even < step < odd < step < even < step < main
//# Chain second: odd < step < main
//# Chain cast: other_type < step < main
//# Chain deep: even < step < odd < step < even < step < odd < step < even < step < main
//# Chain sorted: compare < <qsort> < sort < step < main
//# Chain back: main
#include "show.h"
#include <stdlib.h>

typedef int next(int, const char *);
static next *volatile table[3];
static volatile int sum;

NOINLINE static int step(int n, const char *name, int which) {
  int r = table[which](n, name);
  KEEP;
  return r;
}
NOINLINE static int even(int n, const char *name) {
  if (n == 0) { SHOW(name); return 0; }
  int r = step(n - 1, name, 1);
  KEEP;
  return r + 1;
}
NOINLINE static int odd(int n, const char *name) {
  if (n == 0) { SHOW(name); return 0; }
  int r = step(n - 1, name, 0);
  KEEP;
  return r + 1;
}
// Called through a pointer to functions of another type, as old code does.
NOINLINE static long other_type(long n, const char *name) { sum += (int)n; SHOW(name); KEEP; return 3; }
NOINLINE static int compare(const void *x, const void *y) {
  if (!sum++) SHOW("sorted");
  KEEP;
  return *(const int *)x - *(const int *)y;
}
NOINLINE static int sort(int n, const char *name) {
  int values[2] = {n, (int)name[0]};
  sum = 0;
  qsort(values, 2, sizeof values[0], compare);
  KEEP;
  return values[0];
}

int main(void) {
  table[0] = even;
  table[1] = odd;
  step(2, "first", 0);
  step(0, "second", 1);
  table[2] = (next *)(void *)other_type;
  step(1, "cast", 2);
  step(4, "deep", 0);
  table[2] = sort;
  step(9, "sorted", 2);
  table[2] = (next *)(void *)abs;
  step(-3, "", 2);
  SHOW("back");
  return 0;
}
