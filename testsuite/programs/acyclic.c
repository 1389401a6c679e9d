// Two calls of one caller are two edges, and each path through a diamond has its own id.
//# Chain leaf: leaf < left < main
//# Chain leaf: leaf < left < main
//# Chain leaf: leaf < right < main
//# Chain leaf: leaf < inlined middle < right < main
//# Chain leaf: leaf < main
//# Fixed leaf
//# Chain first: twice < main
//# Lines first: twice < first
//# Chain second: twice < main
//# Lines second: twice < second
//# Levels: -O0 -O1 -O2 -O3 -Os
//# Shapes
#include "show.h"

NOINLINE static void leaf(int n) {
  printf("leaf %d\n", n);
  SHOW("leaf");
  KEEP;
}

NOINLINE static void left(int n) {
  leaf(n + 1);
  leaf(n + 2);
  KEEP;
}

static ALWAYS_INLINE void middle(int n) {
  leaf(n + 1);
  KEEP;
}

NOINLINE static void right(int n) {
  leaf(n);
  middle(n);
  KEEP;
}

NOINLINE static void twice(const char *name) {
  SHOW(name); //@twice
  KEEP;
}

int main(void) {
  left(10);
  right(20);
  leaf(30);
  twice("first"); //@first
  twice("second"); //@second
  return 0;
}
