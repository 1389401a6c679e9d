#include "../show.h"

NOINLINE static void inner(void) { SHOW("other"); KEEP; }

// Has itself several callers here, so that ids that are not its own would still be decoded to something.
NOINLINE int other(int n) {
  inner();
  KEEP;
  return n + 1;
}

NOINLINE int one_caller(int n) { n = other(n); KEEP; return n + other(n); }
