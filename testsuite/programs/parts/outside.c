#include "../show.h"

// On the list of functions that never call back, and nobody pushes to call it.
int rand(void) {
  SHOW("listed");
  // A short buffer holds fewer addresses.
  SHOW_IN("short", 80);
  return 7;
}

NOINLINE static void inner(const char *name) { SHOW(name); KEEP; }
void outside_take(const char *name) { inner(name); KEEP; }
