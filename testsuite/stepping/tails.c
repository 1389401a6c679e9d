// Silent functions that leave to each other by tail calls in a cycle: no id tells how often.
#include "step.h"

volatile int sum;
typedef int function(int, int);

NOINLINE static int repeat(int n, int kept);

NOINLINE static int match(int n, int kept) {
  sum++;
  return n <= 0 ? kept : repeat(n, kept + 1);
}

NOINLINE static int repeat(int n, int kept) {
  if (n > 2 && n & 1) { kept += match(n / 2, kept); KEEP; }
  sum += kept;
  return match(n - 1, kept);
}

// Once, and not in the cycle.
NOINLINE static int aside(int n, int kept) { sum += n; return match(n, kept + 2); }
NOINLINE static int alone(int n) { sum += n; KEEP; return n; }
static function *volatile pointers[] = {match, aside, repeat};

NOINLINE static int work(int n) {
  int r = match(n, 1);
  KEEP;
  r += repeat(n + 2, r) + aside(n, 3) + alone(n);
  KEEP;
  r += (int)pcce_context();
  for (int i = 0; i < 3; i++) { r += pointers[i](i + 2, n); KEEP; }
  if (n > 3) { r += work(n - 2); KEEP; }
  return r;
}

int main(int argc, char **argv) {
  (void)argv;
  step_begin();
  STEP_ON;
  sum += work(argc + 5);
  KEEP;
  STEP_OFF;
  step_end();
  return 0;
}
