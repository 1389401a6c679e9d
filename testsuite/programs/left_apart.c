// A function leaves its activation to one of another module by a tail call: a call through a pointer that does not push
// may have reached the first.
//# With: parts/left_apart.c
//# Levels: -O1 -O2
//# Chain pointer: passes < <tail> < call < main
//# Chain named: passes < <tail leaves> < call < main
//# Chain[lto, -O1] chosen: passes < <tail> < call < main
//# Chain[lto, -O2] chosen: passes < <tail chooses> < call < main
//# Chain[!lto] chosen: passes < <tail chosen> < call < main
#include "show.h"

int passes(int n);
int chosen(int n);
NOINLINE int leaves(int n) { __attribute__((musttail)) return passes(n + 1); }
static int (*volatile pointer)(int) = leaves;

NOINLINE static int call(int n) {
  int r = pointer(n);
  KEEP;
  r += leaves(n + 5);
  KEEP;
  r += chosen(n + 10);
  KEEP;
  return r;
}

int main(void) {
  printf("%d\n", call(1));
  KEEP;
  return 0;
}
