#include "../show.h"
#include "diverted.h"
#include <cstdarg>

NOINLINE static void library_leaf(const char *name) { SHOW(name); KEEP; }

void library_throws(int n) {
  library_leaf("thrower");
  if (n != 1) throw n;
  KEEP;
}

void library_second(int) { library_leaf("second"); KEEP; }

long library_sum(int n, ...) {
  va_list list;
  va_start(list, n);
  long sum = 0;
  for (int i = 0; i < n; i++) sum += va_arg(list, int);
  va_end(list);
  library_leaf("sum");
  if (n > 2) throw n;
  return sum;
}
