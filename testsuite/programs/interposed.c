// Functions of a library that others replace: a library loaded before it (LD_PRELOAD), and the program itself.
//# Library: parts/interposed.c
//# Preloaded: parts/preloaded.c
//# Chain direct: library_leaf < work < work < main
//# Chain own: library_leaf < work < work < library_work < main
//# Chain replaced: replaced < library_replaced < main
//# Chain visible: library_leaf < hidden_step < library_replaced < main
//# Chain pointer: library_leaf < work < work < by_pointer < main
//# Chain weak: default_weak < library_replaced < main
//# Chain strong: strong_weak < library_replaced < main
//# Chain listed: record < labs < <unknown>
//# Chain after: main
//# Fixed after
//# Flags: -fno-builtin
//# LibraryFlags: -fsemantic-interposition
#include "show.h"
#include "parts/interposed.h"
#include <stdlib.h>

// The library has one of its own, which nobody calls.
NOINLINE void replaced(const char *name) { SHOW(name); KEEP; }
NOINLINE void strong_weak(const char *name) { SHOW(name); KEEP; }

NOINLINE static void by_pointer(void (*f)(const char *), const char *name) { f(name); KEEP; }

int main(void) {
  work("direct");
  library_work("own");
  library_replaced();
  by_pointer(work, "pointer");
  preload_name = "listed";
  printf("%ld\n", labs(-5));
  SHOW("after");
  return 0;
}
