// Calls that must stay tail calls: ten million deep they need no stack, and the chain says where frames are gone.
//# Chain[!module] direct: even < <tail> < main
//# Chain[module] direct: even < <tail even> < main
//# Chain pointer: chain_b < <tail chain_a> < main
//# Chain end: finish < <tail relay> < main
//# Chain after: main
#include "show.h"

#define MUSTTAIL __attribute__((musttail)) return
#define DEPTH 10000000

NOINLINE static int odd(int n);

NOINLINE static int even(int n) {
  if (n == 0) {
    SHOW("direct");
    return 1;
  }
  MUSTTAIL odd(n - 1);
}

NOINLINE static int odd(int n) {
  if (n == 0) return 0;
  MUSTTAIL even(n - 1);
}

typedef int function(int);
static function *volatile next[2];

NOINLINE static int chain_a(int n) {
  if (n == 0) {
    SHOW("pointer");
    return 1;
  }
  MUSTTAIL next[n & 1](n - 1);
}

NOINLINE static int chain_b(int n) {
  if (n == 0) {
    SHOW("pointer");
    return 2;
  }
  MUSTTAIL next[n & 1](n - 1);
}

NOINLINE static int finish(int n) {
  SHOW("end");
  KEEP;
  return n;
}

NOINLINE static int relay(int n) { MUSTTAIL finish(n + 1); }

int main(void) {
  next[0] = chain_a;
  next[1] = chain_b;
  printf("%d\n", even(DEPTH));
  printf("%d\n", chain_a(DEPTH));
  printf("%d\n", relay(3));
  SHOW("after");
  return 0;
}
