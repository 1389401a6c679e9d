// A function leaves its activation to one of a shared library by a tail call. The call through a pointer that reached
// it pushes, since it may close a cycle, and leaves the id alone: the library's function pushes once more.
//# Library: parts/left_library.c
//# Levels: -O1 -O2
//# Chain once: passes < <tail> < call < main
//# Chain[lto] once: passes < <tail leaves> < call < main
//# Chain[link] once: passes < <tail leaves> < call < main
//# Chain twice: passes < <tail> < call*2 < main
//# Chain[lto] twice: passes < <tail leaves> < call*2 < main
//# Chain[link] twice: passes < <tail leaves> < call*2 < main
#include "show.h"

int passes(int n);
NOINLINE static int leaves(int n) { __attribute__((musttail)) return passes(n); }
NOINLINE static int call(int n);
static int (*volatile pointers[])(int) = {leaves, call};

NOINLINE static int call(int n) {
  int r = pointers[n > 100](n - 100);
  KEEP;
  return r;
}

int main(void) {
  printf("%d\n", call(0));
  printf("%d\n", call(101));
  KEEP;
  return 0;
}
