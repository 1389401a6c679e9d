#include "../show.h"
#include "both_modes.h"
#include "library.h"

NOINLINE static void apart_leaf(const char *name) { SHOW(name); KEEP; }

NOINLINE void apart(const char *name, int down) {
  if (down) together(name);
  else apart_leaf(name);
  KEEP;
}
NOINLINE void apart_library(void (*f)(int)) { library_calls(f, 7); KEEP; }
NOINLINE void apart_shared(const char *name) { shared(name); KEEP; }
NOINLINE void apart_recursive(int n) { recursive(n - 1); KEEP; }
