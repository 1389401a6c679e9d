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

#ifdef LEVELS
// Two calls at each of 36 levels: values of more than 31 bits.
#define LEVEL(n, next) \
  NOINLINE static int f##n(long way) { \
    int r; \
    if (way >> n & 1) { __asm__ volatile("# a"); r = next(way); __asm__ volatile("# b"); } \
    else { __asm__ volatile("# c"); r = next(way); __asm__ volatile("# d"); } \
    return r; \
  }
NOINLINE static int bottom(long way) { int r = work((int)way); KEEP; return r; }
LEVEL(35, bottom) LEVEL(34, f35) LEVEL(33, f34) LEVEL(32, f33) LEVEL(31, f32) LEVEL(30, f31)
LEVEL(29, f30) LEVEL(28, f29) LEVEL(27, f28) LEVEL(26, f27) LEVEL(25, f26) LEVEL(24, f25)
LEVEL(23, f24) LEVEL(22, f23) LEVEL(21, f22) LEVEL(20, f21) LEVEL(19, f20) LEVEL(18, f19)
LEVEL(17, f18) LEVEL(16, f17) LEVEL(15, f16) LEVEL(14, f15) LEVEL(13, f14) LEVEL(12, f13)
LEVEL(11, f12) LEVEL(10, f11) LEVEL(9, f10) LEVEL(8, f9) LEVEL(7, f8) LEVEL(6, f7)
LEVEL(5, f6) LEVEL(4, f5) LEVEL(3, f4) LEVEL(2, f3) LEVEL(1, f2) LEVEL(0, f1)
#define WORK(n) f0(0x5a5a5a5a5L + n)
#else
#define WORK(n) work(n)
#endif

int main(int argc, char **argv) {
  (void)argv;
  step_begin();
  STEP_ON;
  sum += WORK(argc);
  KEEP;
  sum += WORK(argc + 1);
  KEEP;
  STEP_OFF;
  step_end();
  return 0;
}
