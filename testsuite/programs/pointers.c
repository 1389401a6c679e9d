// Calls through pointers push; a target that is known to the optimiser is an ordinary edge.
//# Chain target: one < apply < main
//# Chain target: two < apply < main
//# Chain target: three < through_table < main
//# Chain target: one < through_table < main
//# Chain target: one < main
//# Chain nested: inner < apply < outer < apply < main
//# Chain self: by_pointer*4 < main
#include "show.h"

typedef void function(int);
typedef void (*volatile pointer)(int);

NOINLINE static void one(int n) { printf("one %d\n", n); SHOW("target"); KEEP; }
NOINLINE static void two(int n) { printf("two %d\n", n); SHOW("target"); KEEP; }
NOINLINE static void three(int n) { printf("three %d\n", n); SHOW("target"); KEEP; }
static const pointer table[] = {one, two, three};

NOINLINE static void apply(function *f, int n) {
  f(n);
  KEEP;
}

NOINLINE static void through_table(int i) {
  table[i](i);
  KEEP;
}

NOINLINE static void inner(int n) { SHOW("nested"); printf("inner %d\n", n); }
NOINLINE static void outer(int n) { apply(inner, n + 1); KEEP; }

static pointer again;
NOINLINE static void by_pointer(int n) {
  if (n == 0)
    SHOW("self");
  else
    again(n - 1);
  KEEP;
}

int main(void) {
  pointer p = one;
  apply(p, 1);
  p = two;
  apply(p, 2);
  through_table(2);
  through_table(0);
  one(5);
  apply(outer, 6);
  again = by_pointer;
  by_pointer(3);
  return 0;
}
