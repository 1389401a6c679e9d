// Functions that leave by jumps: to their own module's, the other module's, and through pointers.
#include "jumped.h"

// Nothing is done for it: who jumps there is not to be seen any more.
NOINLINE static int silent(int n) {
  int r = n;
  for (int i = 0; i < n % 5; i++) { r += i * n; KEEP; }
  return r + sum;
}
NOINLINE static int quiet(int n) { sum++; return silent(n + 1); }

NOINLINE int both(int n) {
  if (n % 3 == 0) { sum += noted(n); KEEP; }
  return quiet(n);
}
NOINLINE int first(int n) { sum += noted(n + 1); KEEP; return both(n); }
NOINLINE int second(int n) { if (n & 1) { sum += other_noted(n); KEEP; } return first(n + 1); }
NOINLINE int through(int n, int (*f)(int)) { sum += silent(n); KEEP; return f(n); }
NOINLINE int around(int n) { return n & 1 ? through(n, first) : noted(n); }
