// A library of which the program has a function's name, too: neither calls the other's.
#include "../show.h"

NOINLINE void same_name_leaf(const char *name) { SHOW(name); KEEP; }
void same_name(const char *name) { same_name_leaf(name); puts("the library's"); }
