// Recursion pushes: of one function, of two that call each other, and with calls on the way that add.
//# Chain even: even < odd < even < main
//# Chain odd: odd < even < odd < even < main
//# Chain down: down*4 < main
//# Chain end: step < tree < step < tree < step < tree < main
//# Chain end: step < tree < step < tree < main
//# Chain end: step < tree < main
//# Chain after: main
//# Fixed after
#include "show.h"

NOINLINE static int odd(int n);

NOINLINE static int even(int n) {
  if (n == 0) {
    SHOW("even");
    return 1;
  }
  int result = odd(n - 1);
  KEEP;
  return result;
}

NOINLINE static int odd(int n) {
  if (n == 0) {
    SHOW("odd");
    return 0;
  }
  int result = even(n - 1);
  KEEP;
  return result;
}

NOINLINE static int down(int n) {
  if (n > 0) {
    int result = down(n - 1) + 1;
    KEEP;
    return result;
  }
  SHOW("down");
  return 0;
}

NOINLINE static void tree(int n);

NOINLINE static void step(int n) {
  if (n > 0) tree(n - 1);
  SHOW("end");
  KEEP;
}

NOINLINE static void tree(int n) {
  step(n);
  KEEP;
}

int main(void) {
  printf("%d\n", even(3));
  printf("%d\n", even(2));
  printf("%d\n", down(3));
  tree(2);
  SHOW("after");
  return 0;
}
