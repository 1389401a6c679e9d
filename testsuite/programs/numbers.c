// Some hundred contexts: every pair of different ones has different numbers, and the second visit of each gives
// the same number as the first (the runner compares them all).
//# Chain leaf: leaf < ... < main
//# Chain deep: leaf < ... < main
//# Fixed leaf
#include "show.h"

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

// Three calls of each level: 3 * 3 * 3 * 3 paths.
#define LEVEL(f, g)                                \
  NOINLINE static void f(const char *name) {       \
    g(name); KEEP; g(name); KEEP; g(name); KEEP;   \
  }
LEVEL(a, leaf)
LEVEL(b, a)
LEVEL(c, b)
LEVEL(d, c)

NOINLINE static void recursive(int n) {
  if (n > 0) {
    recursive(n - 1);
    KEEP;
    recursive(n - 1);
  } else {
    a("deep");
  }
  KEEP;
}

int main(void) {
  for (int i = 0; i < 2; i++) {
    d("leaf");
    recursive(4);
    printf("round %d\n", i);
  }
  return 0;
}
