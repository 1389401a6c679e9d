// Targeted mode: only contexts of targets and captures are wanted. What reaches none is left alone, recursion and jumps
// included; who interrupts it sees every call all the same.
//# Modes: lto module link
//# Flags[!plain]: --pcce-targets=store
//# Chain target: store < put < run < main
//# Chain pointed: store < put < through < run < main
//# Chain quiet: on_signal < <signal> < leaf < deep*3 < quiet < run < main
//# Chain quiet: on_signal < <signal> < leaf < deep*3 < quiet < jumped < run < main
//# Chain back: run < main
//# Chain jumped: jumped < run < main
//# Chain landed: store < jumped < run < main
//# Chain sorted: store < sorts < run < main
//# Chain after: run < main
//# Fixed after
#include "show.h"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

static jmp_buf outside;
static sigjmp_buf buffer;
static volatile int mode, sum;

static void on_signal(int signal) {
  (void)signal;
  SHOW("quiet");
  if (mode) siglongjmp(buffer, 1);
}

NOINLINE static void store(const char *name) { SHOW(name); KEEP; }
NOINLINE static void put(const char *name) { sum++; store(name); KEEP; }
NOINLINE static void through(void (*f)(const char *)) { f("pointed"); KEEP; }

// Silent: neither reaches a target nor what is not known.
NOINLINE static void leaf(int n) { sum += n; if (n == 7) __asm__ volatile("int3"); KEEP; }
NOINLINE static void deep(int n, int last) { if (n > 0) deep(n - 1, last); else leaf(last); KEEP; }
NOINLINE static void leave(int n) { if (n > 3) longjmp(outside, n); leave(n + 1); KEEP; }
NOINLINE static void quiet(int last) { deep(2, last); KEEP; }

// A handler that reaches a capture jumps back to where nothing but the jump does.
NOINLINE static int jumped(void) {
  volatile int rounds = 0;
  if (sigsetjmp(buffer, 1) == 0) { quiet(7); KEEP; }
  rounds++;
  SHOW("jumped");
  store("landed");
  KEEP;
  return rounds;
}

NOINLINE static int compare(const void *x, const void *y) { return *(const int *)x - *(const int *)y; }
NOINLINE static void sorts(void) {
  int values[] = {3, 1, 2};
  qsort(values, 3, sizeof values[0], compare);
  printf("%d %d %d\n", values[0], values[1], values[2]);
  store("sorted");
  KEEP;
}

NOINLINE static void run(void) {
  put("target");
  void (*volatile pointer)(const char *) = put;
  through(pointer);
  quiet(7);
  if (setjmp(outside) == 0) leave(0);
  SHOW("back");
  mode = 1;
  jumped();
  sorts();
  SHOW("after");
}

int main(void) {
  signal(SIGTRAP, on_signal);
  run();
  printf("%d\n", sum);
  return 0;
}
