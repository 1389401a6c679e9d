// The function that `leaves` leaves to, and another one that leaves to it, under the name of an ifunc.
#include "../show.h"

NOINLINE int passes(int n) {
  SHOW(n > 10 ? "chosen" : n > 5 ? "named" : "pointer");
  KEEP;
  return n;
}

NOINLINE static int chooses(int n) { __attribute__((musttail)) return passes(n + 1); }
static int (*resolve(void))(int) { return chooses; }
int chosen(int n) __attribute__((ifunc("resolve")));
