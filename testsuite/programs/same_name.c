// A library that is loaded while the program runs has a function of a name that the program exports, too. A pointer to
// it leads there, and not to the program's.
//# Loaded: parts/same_name.c
//# Chain own: same_name_leaf < same_name < by_pointer < main
//# Chain program: leaf < same_name < by_pointer < main
//# Chain direct: leaf < same_name < main
//# Flags: -rdynamic
#include "show.h"
#include <dlfcn.h>

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }
NOINLINE void same_name(const char *name) { leaf(name); puts("the program's"); }

NOINLINE static void by_pointer(void (*f)(const char *), const char *name) { f(name); KEEP; }

int main(int count, char **arguments) {
  void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  void *found = library ? dlsym(library, "same_name") : NULL;
  if (!found) return 1;
  void (*function)(const char *);
  memcpy(&function, &found, sizeof function);
  by_pointer(function, "own");
  by_pointer(same_name, "program");
  same_name("direct");
  return 0;
}
