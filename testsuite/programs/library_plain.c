// The same program with a library that is not instrumented.
//# PlainLibrary: parts/library.c
//# Chain before: leaf < main
//# Chain callback: leaf < callback < <library_calls> < main
//# Chain callback: leaf < callback < <library_calls> < callback < <library_calls> < main
//# Chain nested: leaf < callback < <library_calls> < main
//# Chain alone: <library_alone> < main
//# Chain variadic: <library_alone> < main
//# Chain exported: leaf < exported < <library_alone> < main
//# Chain thread: <none>
//# Chain after: leaf < main
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
