// The outermost functions, and those that take contexts.
#include "jumped.h"

volatile int sum;

NOINLINE int noted(int n) { sum += (int)pcce_context(); KEEP; return n; }
NOINLINE int other_noted(int n) { sum += n; KEEP; return noted(n + 1); }
NOINLINE static int own(int n) { sum++; return both(n + 1); }
NOINLINE static int far(int n) { sum += n; return second(n); }

NOINLINE static int work(int n) {
  int r = own(n) + both(n + 2);
  KEEP;
  r += first(n) + first(n + 1) + second(n + 3);
  KEEP;
  for (int i = 0; i < 4; i++) r += through(i, i & 1 ? noted : other_noted);
  KEEP;
  r += through(n, both) + far(n + 4) + around(n) + around(n + 1);
  KEEP;
  return r;
}

int main(int argc, char **argv) {
  (void)argv;
  step_begin();
  STEP_ON;
  sum += work(argc);
  KEEP;
  STEP_OFF;
  step_end();
  return 0;
}
