// The same with the library instrumented and the program not.
//# Library: parts/library.c
//# PlainProgram
//# Chain before: <none>
//# Chain callback: <?> < library_step < library_calls
//# Chain callback: <?> < library_step < library_calls < library_step < library_calls
//# Chain nested: <?> < library_step < library_calls
//# Chain alone: library_leaf < library_alone
//# Chain variadic: library_leaf < library_variadic < library_alone
//# Chain exported: <exported> < library_alone
//# Chain thread: library_leaf < library_thread < <thread> < library_alone
//# Chain after: <none>
//# Flags: -fPIC
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
