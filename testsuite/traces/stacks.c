// Stacks that the program switches to, in several ways: `on_main` is called on the thread's own stack, and `on_fiber`
// on another one. See testsuite/tests/suite/trace/stacks.rs.
#include "../src/machine/switch.h"
#include <pcce.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#define NEW __attribute__((noinline)) static
enum { ROUNDS = 20 };
static volatile int seen;
static ucontext_t main_context, fiber_context;
static struct pcce_fiber main_fiber, fiber;
static void *main_pointer, *fiber_pointer;
static char stack[1 << 18] __attribute__((aligned(16)));
static const char *way;

NEW void leaf(int n) { seen = n; }
NEW int odd(int n) {
  if (n % 3 == 1) leaf(n);
  return n % 7;
}
NEW void on_main(int n) {
  if (odd(n) > 2) leaf(n);
}
NEW void on_fiber(int n) {
  if (odd(n) < 3) leaf(n);
}

NEW void to_main(void) {
  if (!strcmp(way, "plain")) {
    swapcontext(&fiber_context, &main_context);
  } else if (!strcmp(way, "handler")) {
    raise(SIGUSR1);
  } else {
    pcce_fiber_save(&fiber);
    if (!strcmp(way, "assembly")) switch_stack(&fiber_pointer, main_pointer);
    else swapcontext(&fiber_context, &main_context);
    pcce_fiber_restore(&fiber);
  }
}
NEW void to_fiber(void) {
  if (strcmp(way, "announced") && strcmp(way, "assembly")) {
    swapcontext(&main_context, &fiber_context);
    return;
  }
  pcce_fiber_save(&main_fiber);
  if (!strcmp(way, "assembly")) switch_stack(&main_pointer, fiber_pointer);
  else swapcontext(&main_context, &fiber_context);
  pcce_fiber_restore(&main_fiber);
}
NEW void deep(int n, int left) {
  if (left > 0) {
    deep(n, left - 1);
    leaf(n);
  } else {
    on_fiber(n);
    to_main();
    on_fiber(n);
  }
}
static void body(void *rounds) {
  for (int i = 0; i < *(int *)rounds; i++) deep(i, i % 4);
}
static int rounds = ROUNDS;
static void entry(void) {
  if (strcmp(way, "announced") && strcmp(way, "assembly")) body(&rounds);
  else pcce_fiber_run(body, &rounds);
  if (!strcmp(way, "assembly")) to_main();
}

// Leaves its stack in the middle of what it has interrupted.
static void handler(int signal) {
  leaf(signal);
  swapcontext(&fiber_context, &main_context);
  leaf(signal);
}

static ucontext_t place;
NEW void returns_again(int n) {
  volatile int times = 0;
  getcontext(&place);
  on_main(n);
  if (times++ < 3) {
    to_fiber();
    setcontext(&place);
  }
}

int main(int argc, char **argv) {
  way = argv[1];
  if (argc > 2) rounds = 3;
  signal(SIGUSR1, handler);
  getcontext(&fiber_context);
  fiber_context.uc_stack.ss_sp = stack;
  fiber_context.uc_stack.ss_size = sizeof stack;
  fiber_context.uc_link = &main_context; // where `entry` returns to
  if (!strcmp(way, "assembly")) fiber_pointer = new_stack(stack, sizeof stack, entry);
  else makecontext(&fiber_context, entry, 0);
  if (argc > 2) { // `setcontext` back to a place on this stack
    returns_again(1);
    return 0;
  }
  for (int i = 0; i <= ROUNDS; i++) {
    on_main(i);
    to_fiber();
    on_main(i);
  }
}
