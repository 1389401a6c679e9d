// Control that comes back to code without the pass: an interpreter, in an object of its own, goes on behind steps that
// fail.
#ifdef PLAIN
#include <setjmp.h>
#include <stddef.h>

struct attempt {
  sigjmp_buf place;
  struct attempt *outer;
};
static _Thread_local struct attempt *innermost;

void fail(int value) {
  if (value % 2)
    siglongjmp(innermost->place, value);
  else
    longjmp(innermost->place, value);
}

// `mask`: whether the set of signals is kept, too.
int interpret(void (*const *steps)(int), int mask) {
  volatile int failed = 0;
  for (volatile int i = 0; steps[i] != NULL; i++) {
    struct attempt own;
    own.outer = innermost;
    innermost = &own;
    if ((mask ? sigsetjmp(own.place, 1) : setjmp(own.place)) == 0)
      steps[i](i);
    else
      failed++;
    innermost = own.outer;
  }
  return failed;
}
#else
#include "step.h"

int interpret(void (*const *steps)(int), int mask);
void fail(int value);

volatile int sum;
// Code without the pass behind a pointer is no boundary: here it is behind a function of the program.
NOINLINE static int runs(void (*const *list)(int), int mask) { int n = interpret(list, mask); KEEP; return n; }
static int (*volatile pointer)(void (*const *)(int), int) = runs;

NOINLINE static void leaf(int n) { sum += n; KEEP; }
NOINLINE static void check(int n) {
  leaf(n);
  if (n > 10) fail(n);
  KEEP;
}
NOINLINE static void deeper(int depth, int n) {
  volatile char room[64];
  room[0] = (char)depth;
  if (depth > 0) deeper(depth - 1, n); else check(n);
  KEEP;
  sum += room[0];
}
static void passes(int n) { check(0); KEEP; deeper(2, n % 2); KEEP; }
static void fails(int n) { leaf(n); check(n + 20); KEEP; }
static void fails_deeper(int n) { deeper(3, n + 31); KEEP; }
static void (*const inner[])(int) = {passes, fails_deeper, passes, fails, passes, NULL};
static void nested(int n) { sum += interpret(inner, n % 2); KEEP; leaf(n); KEEP; }
static void through_pointer(int n) { sum += pointer(inner, n % 2); KEEP; leaf(n); KEEP; }
static void (*const steps[])(int) = {passes, fails, passes, fails_deeper, passes, nested, fails, nested, passes,
                                     through_pointer, fails, through_pointer, passes, NULL};

int main(int argc, char **argv) {
  (void)argv;
  step_begin();
  STEP_ON;
  sum += interpret(steps, 0);
  KEEP;
  sum += pointer(steps, argc);
  KEEP;
  STEP_OFF;
  leaf(sum);
  step_end();
  return 0;
}
#endif
