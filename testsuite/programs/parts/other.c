#include "../show.h"
#include "other.h"

NOINLINE static void in_other(void) { SHOW("other"); KEEP; }
NOINLINE int weak_in_both(void) { puts("strong"); SHOW("weak"); return 3; }
NOINLINE void through_alias(const char *name) { other_name(name); KEEP; }
NOINLINE void use_inline(const char *name) { shared_inline(name); KEEP; }

NOINLINE void pong(int n) {
  if (n == 1) {
    in_other();
    callback();
  } else {
    ping(n - 2);
  }
  KEEP;
}
