// Functions that are left out of a trace (skip_…) jump, are left by jumps, recur, and end the process.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#define KEEP __asm__ volatile("")
#define FUNCTION __attribute__((noinline)) static
static jmp_buf place;

FUNCTION int leaf(int x) { KEEP; return x + 1; }
FUNCTION void jump(int x) { KEEP; if (x > 2) longjmp(place, x); leaf(x); }
FUNCTION int skip_a(int x) { KEEP; jump(x); return leaf(x); }
FUNCTION int skip_leaf(int x) { KEEP; return x * 3; }
FUNCTION int skip_set(int x) {
  jmp_buf own;
  if (setjmp(own)) return leaf(x);
  leaf(1);
  longjmp(own, 1);
}
FUNCTION int skip_rec(int x) { KEEP; return x ? skip_rec(x - 1) + leaf(x) : 0; }
static void bye(void) { leaf(7); }
__attribute__((noinline, noreturn)) static void skip_end(int status) { exit(status); }

int main(void) {
  atexit(bye);
  int s = 0;
  for (int i = 0; i < 6; i++) {
    if (setjmp(place) == 0) s += skip_a(i);
    else s += skip_leaf(i);
    s += skip_set(i);
    s += skip_rec(3);
    s += leaf(skip_leaf(i));
  }
  printf("%d\n", s);
  fflush(stdout);
  skip_end(s > 1000);
}
