// Targeted mode, and a library that takes contexts: what lies between them and the program's targets is not known, and
// said to be so.
//# Library: parts/library.c
//# Modes: lto link
//# Flags[!plain]: --pcce-targets=store
//# LibraryFlags: -fPIC
//# Chain store: store < main
//# Chain alone: library_leaf < library_alone < <unknown>
//# Chain variadic: library_leaf < library_variadic < library_alone < <unknown>
//# Chain thread: library_leaf < library_thread < <unknown> < <thread> < library_alone < <unknown>
//# Chain after: main
#include "show.h"
#include "parts/library.h"

NOINLINE static void store(void) { SHOW("store"); KEEP; }
// Called by name, and through a pointer.
NOINLINE static int quiet(int n) { int (*volatile f)(int) = library_alone; return library_alone(n) + f(n); }
NOINLINE static int above(int n) { int r = quiet(n); KEEP; return r + quiet(n + 1); }
void exported(const char *name) { (void)name; }

int main(void) {
  store();
  printf("%d\n", above(1));
  SHOW("after");
  return 0;
}
