// Without the compiler's knowledge of the C library, `setjmp` looks like any function.
//# Flags: -fno-builtin
//# Chain arrived: leaf < middle < main
//# Chain arrived: leaf < main
#include "show.h"
#include <setjmp.h>

static jmp_buf environment;

NOINLINE static void leaf(const char *name) {
  SHOW(name);
  KEEP;
}

NOINLINE static void jumps(int n) {
  if (n == 0) longjmp(environment, 1);
  jumps(n - 1);
  KEEP;
}

NOINLINE static void middle(void) {
  if (setjmp(environment) == 0) {
    jumps(5);
    KEEP;
  }
  leaf("arrived");
  KEEP;
}

int main(void) {
  middle();
  leaf("arrived");
  printf("done\n");
  return 0;
}
