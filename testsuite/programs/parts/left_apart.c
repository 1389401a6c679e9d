// The functions that `leaves` leaves to.
#include "../show.h"

NOINLINE int passes(int n) {
  SHOW(n > 5 ? "named" : "pointer");
  KEEP;
  return n;
}
