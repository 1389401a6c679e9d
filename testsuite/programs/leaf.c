// `leaf` promises that a function calls nothing in this module. It may well be instrumented itself, in another one.
//# With: parts/leaf.c
//# Chain[lto] other: inner < other < second < main
//# Chain[!lto] other: inner < other < ... < main
//# Chain after: main
//# Fixed after
#include "show.h"

__attribute__((leaf)) int other(int n);

NOINLINE static int second(int n) {
  int result = other(n);
  KEEP;
  return result;
}

int main(void) {
  printf("%d\n", second(1));
  printf("%d\n", second(2));
  printf("%d\n", second(3));
  SHOW("after");
  return 0;
}
