// The program and its shared library, both instrumented, with calls and callbacks in both directions.
//# Library: parts/library.c
//# Chain before: leaf < main
//# Chain callback: leaf < callback < library_step < library_calls < main
//# Chain callback: leaf < callback < library_step < library_calls < callback < library_step < library_calls < main
//# Chain nested: leaf < callback < library_step < library_calls < main
//# Chain alone: library_leaf < library_alone < main
//# Chain variadic: library_leaf < library_variadic < library_alone < main
//# Chain exported: leaf < exported < library_alone < main
//# Chain thread: library_leaf < library_thread < <thread> < library_alone < main
//# Chain after: leaf < main
// Compiled as for a library, the program is an executable all the same.
//# Flags: -fPIC
//# Fixed after
#include "show.h"
#include "parts/library.h"

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }
NOINLINE static void callback(int n) {
  leaf(n == 0 ? "callback" : "nested");
  if (n > 0) library_calls(callback, n - 1);
  KEEP;
}
NOINLINE void exported(const char *name) { leaf(name); KEEP; }

int main(void) {
  leaf("before");
  library_calls(callback, 0);
  library_calls(callback, 1);
  printf("%d\n", library_alone(3));
  leaf("after");
  return 0;
}
