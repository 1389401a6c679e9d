// Functions of one name in two modules: link-time optimisation renames one of them.
//# With: parts/names.c
//# Chain static: same_name < main
//# Chain static-in-other: same_name < call_same_name < main
//# Fixed static
#include "show.h"

void call_same_name(const char *name);
NOINLINE static void same_name(const char *name) { SHOW(name); KEEP; }

int main(void) {
  same_name("static");
  call_same_name("static-in-other");
  return 0;
}
