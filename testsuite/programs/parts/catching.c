#include "../show.h"

// With -fexceptions: without, the compiler may take C functions not to be left by an exception.
NOINLINE int through_c(int (*f)(int), int n) {
  int m = f(n);
  KEEP;
  return m + 1;
}
