#define GNU_HERE
#include "../show.h"
#include "definitions.h"

NOINLINE void gnu_leaf(const char *name) { SHOW(name); KEEP; }
NOINLINE int gnu(const char *name) { gnu_leaf(name); KEEP; return 3; }
NOINLINE int use_gnu(const char *name) { int n = gnu(name); KEEP; return n; }
NOINLINE int other_ifunc(const char *name) { int n = by_ifunc(name); KEEP; return n + 1; }
NOINLINE void in_other(const char *name) { SHOW(name); KEEP; }
NOINLINE void overridden(const char *name) { SHOW(name); KEEP; }
