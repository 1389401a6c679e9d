// Functions whose addresses are in a table of a module that has no function itself; each is called by name, too.
//# With: parts/table_only.c
//# Chain first: once < run < main
//# Chain second: once < twice < run < main
//# Chain third: once < twice < run < again < run < main
//# Chain fourth: once < main
#include "show.h"

extern void (*const table[3])(int n);
static const char *name = "first";

NOINLINE static void run(int n);

NOINLINE void once(int n) {
  SHOW(name);
  KEEP;
}

NOINLINE void twice(int n) {
  once(n);
  KEEP;
}

NOINLINE void again(int n) {
  run(n);
  KEEP;
}

NOINLINE static void run(int n) {
  for (volatile int i = n; i < 3; i = 3) table[i](1);
  KEEP;
}

int main(void) {
  run(0);
  name = "second";
  run(1);
  name = "third";
  run(2);
  name = "fourth";
  once(0);
  return 0;
}
