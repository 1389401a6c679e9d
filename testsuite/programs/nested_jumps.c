// longjmp past other targets of longjmp, again and again in a loop, out of recursion and callbacks, and by functions
// that do not return; the function that is jumped to may itself be reached by additions and pushes.
//# Chain start: target < recursive < recursive < recursive < main
//# Chain inner: inner_target < target < recursive < recursive < recursive < main
//# Chain deep: thrower < walk*4 < inner_target < target < recursive < recursive < recursive < main
//# Chain callback: thrower < compare < <qsort> < inner_target < target < recursive < recursive < recursive < main
//# Chain outer: target < recursive < recursive < recursive < main
//# Chain outer-leaf: leaf < target < recursive < recursive < recursive < main
//# Chain loop: looping < main
//# Chain loop-leaf: leaf < looping < main
//# Chain signals: mask_target < main
//# Chain signals-leaf: leaf < mask_target < main
//# Chain pointer: leaf < called < by_pointer < main
//# Chain atexit: leaf < at_exit < <exit> < main
//# Chain after: leaf < main
//# Fixed after
//# Levels: -O0 -O1 -O2 -O3 -Os
#include "show.h"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

static jmp_buf outer, inner;
static sigjmp_buf masked;

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

__attribute__((noreturn)) NOINLINE static void thrower(const char *name, jmp_buf *to, int value) {
  if (name) SHOW(name);
  longjmp(*to, value);
}

NOINLINE static void walk(int n, const char *name, jmp_buf *to, int value) {
  if (n == 0) thrower(name, to, value);
  walk(n - 1, name, to, value);
  KEEP;
}

static int to_outer;
static int compare(const void *a, const void *b) {
  (void)a;
  (void)b;
  thrower("callback", to_outer ? &outer : &inner, to_outer ? 5 : 6);
}

NOINLINE static int inner_target(int n) {
  int value = setjmp(inner);
  SHOW("inner");
  if (value == 0) walk(3, "deep", &inner, 1);
  int numbers[] = {1, 2};
  to_outer = value == 6;
  if (value == 1 || value == 6) qsort(numbers, 2, sizeof *numbers, compare);
  return n + value;
}

NOINLINE static int target(int n) {
  volatile int count = 0;
  SHOW("start");
  int value = setjmp(outer);
  count++;
  if (value == 0) {
    inner_target(n);
    KEEP;
  }
  SHOW("outer");
  leaf("outer-leaf");
  return value * 10 + count;
}

NOINLINE static int recursive(int n) {
  int value = n > 0 ? recursive(n - 1) : target(n);
  KEEP;
  return value + 1;
}

NOINLINE static long looping(int n) {
  jmp_buf here;
  volatile long sum = 0;
  for (volatile int i = 0; i < n; i++) {
    int value = setjmp(here);
    if (value < 3) walk(i % 5, NULL, &here, value + 1);
    sum += value;
  }
  SHOW("loop");
  leaf("loop-leaf");
  return sum;
}

NOINLINE static void fall(int n) {
  if (n == 0) siglongjmp(masked, 9);
  fall(n - 1);
  KEEP;
}

NOINLINE static int mask_target(void) {
  sigset_t set, now;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  int value = sigsetjmp(masked, 1);
  if (value == 0) {
    sigprocmask(SIG_BLOCK, &set, NULL);
    fall(4);
  }
  SHOW("signals");
  leaf("signals-leaf");
  sigprocmask(SIG_BLOCK, NULL, &now);
  return value + sigismember(&now, SIGUSR1);
}

// A function that jumps back into its caller's caller through a pointer to longjmp itself.
static jmp_buf third;
static void called(void) {
  void (*volatile jump)(jmp_buf, int) = (void (*)(jmp_buf, int))longjmp;
  leaf("pointer");
  jump(third, 4);
}
NOINLINE static int by_pointer(void) {
  void (*volatile f)(void) = called;
  int value = setjmp(third);
  if (value == 0) f();
  return value;
}

static jmp_buf last;
static void at_exit(void) {
  if (setjmp(last) == 0) thrower(NULL, &last, 1);
  leaf("atexit");
}

int main(void) {
  printf("%d\n", recursive(2));
  printf("%ld\n", looping(200));
  printf("%d\n", mask_target());
  printf("%d\n", by_pointer());
  leaf("after");
  atexit(at_exit);
  exit(0);
}
