// Shared by loaded_a.c and loaded_b.c. STEP makes ids differ: each has as many sites as the other, of the same kinds.
#include "../show.h"

NOINLINE static void FUNCTION(leaf)(const char *name) { SHOW(name); KEEP; }

NOINLINE static void FUNCTION(middle)(const char *name, void (*callback)(const char *)) {
  FUNCTION(leaf)(name);
  if (callback) callback(name);
  KEEP;
}

NOINLINE static void FUNCTION(first)(const char *name, void (*callback)(const char *)) {
  if (STEP == 1) FUNCTION(middle)(name, callback);
  KEEP;
}

NOINLINE static void FUNCTION(second)(const char *name, void (*callback)(const char *)) {
  if (STEP == 2) FUNCTION(middle)(name, callback);
  KEEP;
}

__attribute__((constructor)) static void FUNCTION(constructor)(void) { FUNCTION(leaf)("constructor"); puts("loaded"); }
__attribute__((destructor)) static void FUNCTION(destructor)(void) { FUNCTION(leaf)("destructor"); puts("unloaded"); }

void enter(const char *name, void (*callback)(const char *)) {
  FUNCTION(first)(name, callback);
  FUNCTION(second)(name, callback);
  KEEP;
}
