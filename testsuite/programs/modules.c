// Two modules that call each other: plain frames in both modes, whoever defines what. Only the name of an
// alias in another module stays a boundary: nothing says there that it is a name of `real`.
//# With: parts/other.c
//# Chain local: local < ping < main
//# Chain other: in_other < pong < ping < main
//# Chain back: local < callback < pong < ping < main
//# Chain weak: weak_in_both < main
//# Chain default: only_weak < main
//# Chain deep: ping < pong < ping < pong < ping < main
//# Chain alias: real < main
//# Chain alias-in-other: real < through_alias < main
//# Chain inline: shared_inline < main
//# Chain inline-in-other: shared_inline < use_inline < main
//# Chain after: local < main
//# Fixed after
//# Levels: -O0 -O1 -O2 -O3 -Os
#include "show.h"
#include "parts/other.h"

NOINLINE static void local(const char *name) { SHOW(name); KEEP; }
NOINLINE void callback(void) { local("back"); KEEP; }

// The other module's definition, which is not weak, is the one that runs.
__attribute__((weak)) NOINLINE int weak_in_both(void) { puts("weak"); SHOW("wrong"); return 1; }
__attribute__((weak)) NOINLINE int only_weak(void) { puts("default"); SHOW("default"); return 2; }

NOINLINE void real(const char *name) { SHOW(name); KEEP; }
extern void other_name(const char *name) __attribute__((alias("real")));

NOINLINE void ping(int n) {
  if (n == 0) {
    SHOW("deep");
    return;
  }
  if (n == 1) local("local");
  pong(n);
  KEEP;
}

int main(void) {
  ping(1);
  ping(4);
  printf("%d\n", weak_in_both());
  printf("%d\n", only_weak());
  other_name("alias");
  through_alias("alias-in-other");
  shared_inline("inline");
  use_inline("inline-in-other");
  local("after");
  return 0;
}
