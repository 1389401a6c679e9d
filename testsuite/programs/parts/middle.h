// A function that is watched from its own program: `middle` calls `leaf`. Who includes this defines `middle` behind it.
#include "../show.h"

NOINLINE static int leaf(int n) { return n + 1; }
NOINLINE static int middle(int n);

int main(int argc, char **argv) {
  (void)argv;
  printf("%d\n", middle(argc));
  SHOW("after");
  return 0;
}
