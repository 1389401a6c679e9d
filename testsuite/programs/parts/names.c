#include "../show.h"

NOINLINE static void same_name(const char *name) { SHOW(name); KEEP; }
NOINLINE void call_same_name(const char *name) { same_name(name); KEEP; }
