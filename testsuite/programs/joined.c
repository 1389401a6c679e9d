// Two inlined functions take a context in two branches, and do the same with it. The optimiser must not make one of
// both places.
//# Chain first: inlined one < step < main
//# Chain second: inlined two < step < main
#include "show.h"

static ALWAYS_INLINE void one(const char *name) { SHOW(name); }
static ALWAYS_INLINE void two(const char *name) { SHOW(name); }

NOINLINE static void step(const char *name, int is_first) {
  if (is_first)
    one(name);
  else
    two(name);
  KEEP;
}

int main(void) {
  step("first", 1);
  KEEP;
  step("second", 0);
  KEEP;
  return 0;
}
