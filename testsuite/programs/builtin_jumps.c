// The compiler's own setjmp and longjmp, and those that save the signal mask.
//# Chain builtin: target < main
//# Chain builtin-leaf: leaf < target < main
//# Chain signals: with_signals < main
//# Chain after: leaf < main
//# Fixed after
#include "show.h"
#include <setjmp.h>

static void *words[5];
static sigjmp_buf buffer;

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

NOINLINE static void fall(int n) {
  if (n == 0) __builtin_longjmp(words, 1);
  fall(n - 1);
  KEEP;
}

NOINLINE static void fall_with_signals(int n) {
  if (n == 0) siglongjmp(buffer, 1);
  fall_with_signals(n - 1);
  KEEP;
}

NOINLINE static int target(int n) {
  if (__builtin_setjmp(words) == 0) {
    fall(n);
    return 0;
  }
  SHOW("builtin");
  leaf("builtin-leaf");
  return 1;
}

NOINLINE static int with_signals(int n) {
  if (sigsetjmp(buffer, 1) == 0) fall_with_signals(n);
  SHOW("signals");
  return 2;
}

int main(void) {
  printf("%d\n", target(3));
  printf("%d\n", with_signals(4));
  leaf("after");
  return 0;
}
