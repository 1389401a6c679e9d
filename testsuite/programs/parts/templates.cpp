#include "../show.h"
#include "templates.h"

NOINLINE long in_other(long n) {
  Counter counter;
  long sum = twice(int(n), "int-in-other") + twice(n, "long") + counter.next("method-in-other");
  KEEP;
  return sum + instance();
}
