// Functions whose attributes promise that they read and write nothing (or write nothing) are called twice, with
// equal and with different arguments, and take contexts. The promise is about results, not about contexts:
// whatever calls remain have right contexts, and none is folded into another one after the pass.
//# Chain const: constant < twice < main
//# Chain pure: pure < twice < main
//# Chain below: counted < constant < twice < main
//# Chain after: main
//# Fixed after
#include "show.h"

NOINLINE static int counted(int n) {
  SHOW("below");
  KEEP;
  return n + 1;
}

// The compiler may not look into these and find out that the promise is not kept.
static int (*volatile hidden)(int) = counted;

__attribute__((const)) NOINLINE int constant(int n);
__attribute__((pure)) NOINLINE int pure(int n);

int constant(int n) {
  SHOW("const");
  return counted(n) * 2;
}

int pure(int n) {
  SHOW("pure");
  return hidden != 0 ? n * 3 : 0;
}

NOINLINE static int twice(int n) {
  int sum = constant(n) + constant(n + 1);
  sum += pure(n) + pure(n + 2);
  KEEP;
  return sum;
}

int main(void) {
  volatile int n = 4;
  printf("%d\n", twice(n));
  SHOW("after");
  return 0;
}
