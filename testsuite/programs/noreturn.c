// A callee that does not return takes a context; the exit status is the program's own.
//# Chain cleanup: cleanup < <exit> < die < check < main
//# Chain die: die < check < main
//# Chain before: check < main
//# ExitStatus: 7
#include "show.h"
#include <stdlib.h>

static void cleanup(void) { SHOW("cleanup"); puts("cleanup"); }

__attribute__((noreturn)) NOINLINE static void die(int status) {
  SHOW("die");
  exit(status);
}

NOINLINE static int check(int n) {
  SHOW("before");
  if (n > 3) die(n);
  return n;
}

int main(void) {
  volatile int n = 7;
  atexit(cleanup);
  return check(n) + 1;
}
