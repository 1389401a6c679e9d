// A library function that is not instrumented calls back: its name is a boundary in the chain.
//# Chain compare: compare < <qsort> < sort < main
//# Chain find: compare_key < <bsearch> < find < main
//# Chain nested: compare < <qsort> < compare_outer < <qsort> < main
//# Chain after: main
//# Fixed after
//# Shapes
#undef __NO_INLINE__
#define __NO_INLINE__ 1 // the C library's header has a bsearch of its own, which would be inlined
#include "show.h"
#include <stdlib.h>

static int shows;
static const char *name = "compare";

static int compare(const void *a, const void *b) {
  if (shows-- > 0) SHOW(name);
  return *(const int *)a - *(const int *)b;
}

static int compare_key(const void *a, const void *b) {
  if (shows-- > 0) SHOW("find");
  return *(const int *)a - *(const int *)b;
}

static int compare_outer(const void *a, const void *b) {
  int pair[2] = {2, 1};
  qsort(pair, 2, sizeof *pair, compare);
  return *(const int *)a - *(const int *)b;
}

NOINLINE static void sort(int *numbers, size_t count) {
  shows = 3;
  qsort(numbers, count, sizeof *numbers, compare);
  KEEP;
}

NOINLINE static int find(int key, int *numbers, size_t count) {
  shows = 2;
  int *found = bsearch(&key, numbers, count, sizeof *numbers, compare_key);
  KEEP;
  return found ? (int)(found - numbers) : -1;
}

int main(void) {
  int numbers[] = {5, 3, 9, 1, 7};
  sort(numbers, 5);
  for (int i = 0; i < 5; i++) printf("%d\n", numbers[i]);
  printf("%d\n", find(7, numbers, 5));
  shows = 1;
  name = "nested";
  qsort(numbers, 2, sizeof *numbers, compare_outer);
  SHOW("after");
  return 0;
}
