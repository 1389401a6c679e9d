// Each place into which a capture is inlined has numbers of its own, which decode to the frames of its token.
//# Chain a: inlined ev < inlined alloc_a < inlined direct < main
//# Chain b: inlined ev < inlined alloc_b < inlined direct < main
//# Chain twice: inlined ev < inlined alloc_twice < inlined direct < main
//# Chain deep: inlined ev < inlined alloc_a < walk < ... < main
//# Chain compared: inlined ev < by_size < <qsort> < sort < main
//# Fixed a
//# Fixed b
//# Fixed twice
#include "show.h"
#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))

INLINE void ev(const char *name) { SHOW(name); }
INLINE void alloc_a(const char *name) { ev(name); }
INLINE void alloc_b(const char *name) { ev(name); }
// Two lines of one inline stack.
INLINE void alloc_twice(const char *name) {
  ev(name);
  ev(name);
}
INLINE void direct(void) {
  alloc_a("a"), alloc_b("b");
  alloc_twice("twice");
}
NOINLINE static void walk(int depth) {
  if (depth == 0) {
    alloc_a("deep");
  } else {
    walk(depth - 1);
    KEEP;
    walk(depth - 1);
  }
  KEEP;
}
static int by_size(const void *a, const void *b) {
  ev("compared");
  return *(const int *)a - *(const int *)b;
}
NOINLINE static void sort(void) {
  int sizes[] = {3, 1};
  qsort(sizes, 2, sizeof *sizes, by_size);
  KEEP;
}
int main(void) {
  direct();
  walk(2);
  sort();
  return 0;
}
