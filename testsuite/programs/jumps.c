// setjmp and longjmp: the function that is jumped to has its own context again, from wherever the jump came.
//# Chain deep: fall*6 < from_depth < main
//# Chain back: from_depth < main
//# Chain back: twice < from_depth < main
//# Chain back: from_callback < main
//# Chain more: leaf < from_depth < main
//# Chain more: leaf < from_callback < main
//# Chain compare: compare < <qsort> < from_callback < main
//# Chain after: leaf < main
//# Fixed after
//# Levels: -O0 -O1 -O2 -O3 -Os
#include "show.h"
#include <setjmp.h>
#include <stdlib.h>

static jmp_buf buffer;

NOINLINE static void leaf(const char *name) {
  SHOW(name);
  KEEP;
}

NOINLINE static void fall(int n) {
  if (n == 0) {
    SHOW("deep");
    longjmp(buffer, 42);
  }
  fall(n - 1);
  KEEP;
}

NOINLINE static void twice(void) {
  jmp_buf own;
  if (setjmp(own) == 0) longjmp(own, 1);
  SHOW("back");
  KEEP;
}

static int compare(const void *a, const void *b) {
  SHOW("compare");
  longjmp(buffer, *(const int *)a < *(const int *)b ? 7 : 8);
}

NOINLINE static int from_depth(void) {
  int value = setjmp(buffer);
  if (value == 0) fall(5);
  SHOW("back");
  leaf("more");
  twice();
  return value;
}

NOINLINE static int from_callback(void) {
  int numbers[] = {1, 2, 3};
  int value = setjmp(buffer);
  if (value == 0) qsort(numbers, 3, sizeof *numbers, compare);
  SHOW("back");
  leaf("more");
  return value;
}

int main(void) {
  printf("%d\n", from_depth());
  printf("%d\n", from_callback());
  leaf("after");
  return 0;
}
