// The program's own versions of functions that code generation calls: nobody sees where.
//# Chain division: record < __divti3 < <unknown>
//# Chain remainder: record < __modti3 < <unknown>
//# Chain product: record < __multf3 < <unknown>
//# Chain direct: record < __divti3 < by_name < main
//# Chain after: main
//# Fixed after
#include "show.h"

typedef __int128 wide;
typedef unsigned __int128 unsigned_wide;

static const char *volatile name;

NOINLINE static void record(void) {
  const char *of = name;
  name = 0;
  if (of) SHOW(of);
  KEEP;
}

// Of 128 bits.
#ifdef __aarch64__
typedef long double quad;
#else
typedef __float128 quad;
#endif

// For small numbers.
NOINLINE wide __divti3(wide a, wide b) {
  record();
  return (long)a / (long)b;
}
// Of this module alone, and called by it.
__attribute__((used)) NOINLINE static wide __modti3(wide a, wide b) {
  record();
  return (long)a % (long)b;
}
// For powers of two.
__attribute__((used)) NOINLINE quad __multf3(quad a, quad b) {
  unsigned_wide x, y;
  memcpy(&x, &a, sizeof x);
  memcpy(&y, &b, sizeof y);
  record();
  x += y - ((unsigned_wide)16383 << 112);
  memcpy(&a, &x, sizeof a);
  return a;
}

NOINLINE static wide divide(wide a, wide b) { return a / b; }
NOINLINE static wide divide_more(wide a) {
  wide quotient = divide(a, 7);
  KEEP;
  return quotient;
}
NOINLINE static wide remain(wide a, wide b) { return a % b; }
NOINLINE static quad multiply(quad a, quad b) { return a * b; }
NOINLINE static wide by_name(wide a) {
  wide quotient = __divti3(a, 5);
  KEEP;
  return quotient;
}

int main(int argc, char **argv) {
  (void)argv;
  name = "division";
  printf("%ld\n", (long)divide_more(100 + argc));
  name = "remainder";
  printf("%ld\n", (long)remain(100, 6 + argc));
  name = "product";
  quad product = multiply(argc * 2, 4);
  unsigned long halves[2];
  memcpy(halves, &product, sizeof halves);
  printf("%lx\n", halves[1]);
  name = "direct";
  printf("%ld\n", (long)by_name(100 + argc));
  SHOW("after");
  return 0;
}
