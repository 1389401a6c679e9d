// Numbers of contexts behind a push: with ids of few bits and of sixty, for which there is no room beside the chain's
// number. Every pair of different contexts has different numbers, and the second visit of each gives the same number as
// the first (the runner compares them all). A number is that of the function's context, whichever of its calls asks.
//# Chain wide: leaf < ... < main
//# Modes: lto
#include "show.h"

NOINLINE static void leaf(unsigned long long path) {
  unsigned long long before = pcce_context();
  SHOW("wide");
  printf("%llu: %s\n", path, before == pcce_context() ? "same" : "different");
}

// Two calls of each level, which no optimisation makes one of: 2^60 paths.
#define CALL(f, path, text)                            \
  __asm__ volatile("# before " text : "+r"(path));     \
  f(path >> 1);                                        \
  __asm__ volatile("# after " text ::: "memory")
#define LEVEL(f, g)                                    \
  NOINLINE static void f(unsigned long long path) {    \
    if (path & 1) {                                    \
      CALL(g, path, "one");                            \
    } else {                                           \
      CALL(g, path, "the other");                      \
    }                                                  \
  }
#define LEVELS(f, g)   \
  LEVEL(f##1, g)       \
  LEVEL(f##2, f##1)    \
  LEVEL(f##3, f##2)    \
  LEVEL(f##4, f##3)    \
  LEVEL(f##5, f##4)    \
  LEVEL(f, f##5)
LEVELS(a, leaf)
LEVELS(b, a)
LEVELS(c, b)
LEVELS(d, c)
LEVELS(e, d)
LEVELS(f, e)
LEVELS(g, f)
LEVELS(h, g)
LEVELS(i, h)
LEVELS(j, i)

NOINLINE static void recursive(int n, unsigned long long path) {
  if (n > 0) recursive(n - 1, path);
  else j(path);
  KEEP;
}

int main(void) {
  const unsigned long long all = (1ull << 60) - 1;
  // Volatile: a loop with copies of its calls would have too many contexts.
  for (volatile int round = 0; round < 2; round++)
    for (volatile int n = 1; n < 4; n++)
      for (volatile int bit = 0; bit <= 60; bit += 12) {
        unsigned long long low = (1ull << bit) - 1;
        recursive(n, low);
        recursive(n, all & ~low);
      }
  return 0;
}
