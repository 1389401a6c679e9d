// Functions that take contexts, and functions that cannot.
#include "left.h"
#include "../show.h"

NOINLINE int left_inner(const char *name) {
  SHOW(name);
  KEEP;
  return 2;
}

NOINLINE long left_long(const char *name, long n) {
  SHOW(name);
  KEEP;
  return n;
}

NOINLINE long left_silent_long(const char *name, long n) { return name[n]; }

NOINLINE int left_silent(const char *name) { return name[0]; }

NOINLINE void *left_thread_inner(void *name) {
  SHOW((const char *)name);
  KEEP;
  return name;
}
