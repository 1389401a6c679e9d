// The compiler makes several calls of one, and a macro has two at one place of the source. Nothing that is shown tells
// them apart, so their contexts have one number.
//# Chain direct: take < main
//# Chain qsort: take < by_size < <qsort> < sort < main
//# Chain pointer: take < to_pointer < main
//# Chain again: take < recurse < recurse < main
//# Chain seldom: take < by_size < <qsort> < seldom < main
//# Chain twice: take < main
//# Levels: -O0 -O2 -O3
#include "show.h"
#include <stdlib.h>

enum { NAMES = 6 };
static const char *const names[NAMES] = {"direct", "qsort", "pointer", "again", "seldom", "twice"};
static const char *sorting;
static volatile int never;
static volatile int two = 2;

// Shows the first of each, and ends if another one has another number.
NOINLINE static void take(const char *name) {
  static unsigned long long known[NAMES];
  int i = 0;
  while (strcmp(names[i], name)) i++;
  unsigned long long number = pcce_context();
  if (!known[i]) {
    known[i] = number;
    SHOW(name);
  }
  if (known[i] != number) _exit(3);
}

static int by_size(const void *a, const void *b) {
  take(sorting);
  KEEP;
  return *(const int *)a - *(const int *)b;
}
NOINLINE static void to_pointer(const char *name) { take(name); KEEP; }
NOINLINE static void other(const char *name) { never += name[0]; }
static void (*volatile pointer)(const char *) = to_pointer;

NOINLINE static void sort(void) {
  int list[] = {2, 1};
#pragma clang loop unroll(full)
  for (int i = 0; i < 3; i++) qsort(list, 2, sizeof *list, by_size);
}

// Its pushes are in a function of their own.
NOINLINE static void seldom(int really) {
  int list[] = {2, 1};
  if (__builtin_expect(really, 0)) {
#pragma clang loop unroll(full)
    for (int i = 0; i < 3; i++) qsort(list, 2, sizeof *list, by_size);
  }
}

NOINLINE static void recurse(int depth) {
  if (depth == 0) {
    take("again");
  } else {
#pragma clang loop unroll(full)
    for (int i = 0; i < 3; i++) recurse(depth - 1);
  }
  KEEP;
}

#define TWICE(name) take(name), take(name)

int main(void) {
#pragma clang loop unroll_count(2)
  for (int i = 0; i < 4; i++) take("direct");
  sorting = "qsort";
  sort();
#pragma clang loop unroll(full)
  for (int i = 0; i < 3; i++) pointer("pointer");
  if (never) pointer = other;
  recurse(1);
  sorting = "seldom";
  for (int i = 0; i < two; i++) seldom(i);
  TWICE("twice");
  return 0;
}
