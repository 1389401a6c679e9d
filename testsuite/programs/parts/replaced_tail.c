// The definition that runs: it takes contexts, and its caller left to it by a tail call.
#include "../show.h"

int match(int n, int kept);
NOINLINE int repeat(int n, int kept) {
  SHOW("repeat");
  int r = n > 1 ? match(n - 1, kept) : kept;
  KEEP;
  return r;
}
