// A function that finds an argument on the stack, and that an executable's open call enters without a push.
#include "../show.h"
#include "by_value.h"

NOINLINE static long inner(long n, long (*h)(long)) { long r = h(n); KEEP; return r; }
long sums(long a, long b, struct big big, long (*h)(long)) {
  long r = a + b + big.word[8] + h(1);
  KEEP;
  r += inner(2, h);
  KEEP;
  return r;
}
