// A program for a profiler (-pg) that has its own mcount.
//# Flags: -Xclang -pg
//# Chain[lto] enter: record < mcount < leaf < middle < main
//# Chain[!lto] enter: record < mcount < leaf < middle < main
//# Chain after: main
#include "parts/middle.h"

#define UNPROFILED __attribute__((no_instrument_function)) NOINLINE

static const char *volatile name;

UNPROFILED static void record(const char *of) { SHOW(of); KEEP; }
__attribute__((used)) UNPROFILED void mcount(void) {
  const char *of = name;
  name = 0;
  if (of) record(of);
}

NOINLINE static int middle(int n) {
  name = "enter";
  n = leaf(n);
  KEEP;
  return n;
}
