#include "../show.h"

int passes(int n);
NOINLINE int passes(int n) {
  SHOW(n == -100 ? "once" : "twice");
  KEEP;
  return n;
}
