// A function that takes the place of traps. It is in another module, which makes no such call.
//# Flags: -fsanitize=signed-integer-overflow -fsanitize-trap=all -ftrap-function=on_trap
//# With: parts/traps.c
//# Chain overflow: on_trap < add < outer < main
//# Chain trap: on_trap < traps < main
//# Chain after: main
//# Fixed after
#include "show.h"
#include <limits.h>
#include <setjmp.h>

extern jmp_buf trap_back;
extern const char *volatile trap_name;

// Nothing in these shows that they call anything.
NOINLINE static int add(int a, int b) { return a + b; }
NOINLINE static int outer(int a) {
  int sum = add(a, 1);
  KEEP;
  return sum;
}
NOINLINE static void traps(void) { __builtin_trap(); }

int main(int argc, char **argv) {
  (void)argv;
  printf("%d\n", outer(argc));
  trap_name = "overflow";
  if (!setjmp(trap_back)) outer(INT_MAX);
  trap_name = "trap";
  if (!setjmp(trap_back)) traps();
  SHOW("after");
  return 0;
}
