// Fibers of a program that announces no switch, by swapcontext and in assembly: the program runs as it does, contexts
// on the threads' own stacks are exact, and those in fibers end at an explicit boundary. Nothing of a stack that is
// gone is looked at.
//# Cut
//# Chain body: leaf < body < entry < <damaged>
//# Chain deep: leaf < deep < <damaged>
//# Chain[!module] deep: leaf < <damaged>
//# Chain called-back: leaf < called_back < <damaged>
//# Chain resumer: leaf < resume < main
//# Chain resumer: leaf < resume < elsewhere < main
//# Chain resumer: leaf < resume < elsewhere < nested*3 < main
//# Chain resumer: leaf < resume < main
//# Chain resumer: leaf < resume < on_thread
//# Chain abandoned: leaf < called < main
//# Chain handler: leaf < handler < <damaged>
//# Chain handler: leaf < handler < <signal> < ... < main
//# Chain alternate: leaf < alternate < <signal> < ... < body < <damaged>
//# Chain alternate: leaf < alternate < <signal> < ... < main
//# Chain ucontext: leaf < work < context_entry < <damaged>
//# Chain ucontext-main: leaf < resume_context < main
//# Chain ucontext-main: leaf < resume_context < other_resumer < main
//# Chain ucontext-main: leaf < resume_context < main
//# Shapes
#include "show.h"
#include "../src/machine/switch.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 1 << 17 };

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

static void *main_pointer, *fiber_pointer;
NOINLINE static void leave(void) { switch_stack(&fiber_pointer, main_pointer); KEEP; }

NOINLINE static void deep(int n) {
  if (n > 0) {
    deep(n - 1);
  } else {
    leave();
    leaf("deep");
  }
  KEEP;
}
static int called_back(const void *a, const void *b) {
  leave();
  leaf("called-back");
  return *(const int *)a - *(const int *)b;
}
static void alternate(int signal) { (void)signal; leaf("alternate"); KEEP; }
static void handler(int signal) { (void)signal; leaf("handler"); KEEP; }
NOINLINE static void body(void) {
  leaf("body");
  leave();
  leaf("body");
  deep(3);
  int pair[] = {2, 1};
  qsort(pair, 2, sizeof *pair, called_back);
  leave();
  leaf("body");
  raise(SIGUSR1);
  raise(SIGUSR2);
  leave();
}
static void entry(void) { body(); abort(); }

NOINLINE static void resume(void) {
  switch_stack(&main_pointer, fiber_pointer);
  leaf("resumer");
}
NOINLINE static void elsewhere(void) { resume(); KEEP; }
NOINLINE static void nested(int n) {
  if (n > 0) nested(n - 1);
  else elsewhere();
  KEEP;
}
// Overwrites what activations that are over left on the stack.
NOINLINE static void overwrite(void) {
  char buffer[8192];
  memset(buffer, 0x5a, sizeof buffer);
  __asm__ volatile("" ::"r"(buffer) : "memory");
}
static void own_stack_for_handlers(void) {
  stack_t own = {.ss_sp = malloc(STACK), .ss_size = STACK};
  if (own.ss_sp == NULL || sigaltstack(&own, NULL) != 0) abort();
}
static void *on_thread(void *argument) {
  own_stack_for_handlers();
  resume();
  return argument;
}

NOINLINE static void called(void (*f)(const char *)) { f("abandoned"); KEEP; }

static ucontext_t main_context, context;
NOINLINE static void work(void) {
  leaf("ucontext");
  swapcontext(&context, &main_context);
  leaf("ucontext");
}
static void context_entry(void) { work(); work(); KEEP; }
NOINLINE static void resume_context(void) {
  swapcontext(&main_context, &context);
  leaf("ucontext-main");
}
NOINLINE static void other_resumer(void) { resume_context(); KEEP; }

int main(void) {
  // The one on the stack that it interrupts, and that is a fiber's once; the other one on a stack of its own.
  struct sigaction action = {.sa_handler = alternate, .sa_flags = SA_ONSTACK};
  own_stack_for_handlers();
  signal(SIGUSR1, handler);
  sigaction(SIGUSR2, &action, NULL);
  void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) abort();
  fiber_pointer = new_stack(stack, STACK, entry);
  resume();
  overwrite();
  elsewhere();
  overwrite();
  nested(2);
  overwrite();
  resume();
  overwrite();
  pthread_t thread;
  if (pthread_create(&thread, NULL, on_thread, NULL) != 0) abort();
  pthread_join(thread, NULL);
  munmap(stack, STACK);
  called(leaf);
  raise(SIGUSR1);
  raise(SIGUSR2);

  getcontext(&context);
  context.uc_stack.ss_sp = malloc(STACK);
  context.uc_stack.ss_size = STACK;
  context.uc_link = &main_context;
  makecontext(&context, context_entry, 0);
  resume_context();
  overwrite();
  other_resumer();
  overwrite();
  resume_context();
  free(context.uc_stack.ss_sp);
  return 0;
}
