// Fibers that announce their switches (pcce_fiber_save, pcce_fiber_restore, pcce_fiber_run): by swapcontext and by a
// switch in assembly, resumed from different callers, one fiber by another, on another thread, and abandoned. Contexts
// are exact.
//# Cut
//# Chain body: leaf < body < fiber
//# Chain deep: leaf < deep*4 < body < fiber
//# Chain called-back: leaf < called_back < <qsort> < body < fiber
//# Chain main: leaf < main
//# Chain resumer: leaf < resume < main
//# Chain resumer: leaf < resume < elsewhere < main
//# Chain resumer: leaf < resume < elsewhere < nested*3 < main
//# Chain resumer: leaf < resume < main
//# Chain resumer: leaf < resume < on_thread
//# Chain symmetric: leaf < second < fiber
//# Chain abandoned: leaf < main
//# Chain ucontext: leaf < work < context_body
//# Chain ucontext-main: leaf < resume_context < main
//# Chain ucontext-main: leaf < resume_context < other_resumer < main
//# Chain ucontext-main: leaf < resume_context < main
//# Shapes
#include "show.h"
#include "../src/machine/switch.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 1 << 17 };

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

// A fiber of our own.
struct fiber {
  void *stack, *pointer;
  struct pcce_fiber state;
  void (*body)(struct fiber *);
};
static struct fiber *running; // the fiber that runs, or is entered
static struct fiber main_fiber;

NOINLINE static void to(struct fiber *next) {
  struct fiber *mine = running;
  running = next;
  pcce_fiber_save(&mine->state);
  switch_stack(&mine->pointer, next->pointer);
  pcce_fiber_restore(&mine->state);
  KEEP;
}

static void fiber(void *argument) {
  struct fiber *self = argument;
  self->body(self);
  KEEP;
  to(&main_fiber);
  abort();
}
static void entry(void) { pcce_fiber_run(fiber, running); abort(); }

static void create(struct fiber *new, void (*body)(struct fiber *)) {
  new->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (new->stack == MAP_FAILED) abort();
  new->pointer = new_stack(new->stack, STACK, entry);
  new->body = body;
}

NOINLINE static void deep(int n) {
  if (n > 0) {
    deep(n - 1);
  } else {
    leaf("deep");
    to(&main_fiber);
    leaf("deep");
  }
  KEEP;
}
static int called_back(const void *a, const void *b) {
  to(&main_fiber);
  leaf("called-back");
  return *(const int *)a - *(const int *)b;
}
NOINLINE static void body(struct fiber *self) {
  (void)self;
  leaf("body");
  to(&main_fiber);
  leaf("body");
  deep(3);
  int pair[] = {2, 1};
  qsort(pair, 2, sizeof *pair, called_back);
  to(&main_fiber);
  leaf("body");
}

NOINLINE static void resume(struct fiber *f) {
  to(f);
  leaf("resumer");
}
NOINLINE static void elsewhere(struct fiber *f) { resume(f); KEEP; }
NOINLINE static void nested(int n, struct fiber *f) {
  if (n > 0) nested(n - 1, f);
  else elsewhere(f);
  KEEP;
}
// Overwrites what activations that are over left on the stack.
NOINLINE static void overwrite(void) {
  char buffer[8192];
  memset(buffer, 0x5a, sizeof buffer);
  __asm__ volatile("" ::"r"(buffer) : "memory");
}

static struct fiber second_fiber;
NOINLINE static void second(struct fiber *self) {
  (void)self;
  for (;;) {
    leaf("symmetric");
    to(&main_fiber);
  }
}
NOINLINE static void first(struct fiber *self) {
  (void)self;
  to(&second_fiber);
}

static void *on_thread(void *argument) {
  struct fiber *moved = argument, own = main_fiber;
  // The fiber comes back to this thread's stack.
  running = &main_fiber;
  resume(moved);
  main_fiber = own;
  return NULL;
}

static ucontext_t main_context, context;
static struct pcce_fiber main_state, context_state;
NOINLINE static void work(void) {
  leaf("ucontext");
  pcce_fiber_save(&context_state);
  swapcontext(&context, &main_context);
  pcce_fiber_restore(&context_state);
  leaf("ucontext");
}
static void context_body(void *argument) { (void)argument; work(); work(); KEEP; }
static void context_entry(void) { pcce_fiber_run(context_body, NULL); }
NOINLINE static void resume_context(void) {
  pcce_fiber_save(&main_state);
  swapcontext(&main_context, &context);
  pcce_fiber_restore(&main_state);
  leaf("ucontext-main");
}
NOINLINE static void other_resumer(void) { resume_context(); KEEP; }

int main(void) {
  struct fiber f;
  running = &main_fiber;
  create(&f, body);
  resume(&f);
  overwrite();
  elsewhere(&f);
  overwrite();
  nested(2, &f);
  overwrite();
  resume(&f);
  leaf("main");
  // The rest of it runs on another thread, which takes the place of this one.
  pthread_t thread;
  if (pthread_create(&thread, NULL, on_thread, &f) != 0) abort();
  pthread_join(thread, NULL);
  munmap(f.stack, STACK);

  // One fiber enters another, which is resumed from here.
  struct fiber g;
  create(&g, first);
  create(&second_fiber, second);
  running = &main_fiber;
  to(&g);
  overwrite();
  to(&second_fiber);
  // Both are abandoned.
  munmap(g.stack, STACK);
  munmap(second_fiber.stack, STACK);
  leaf("abandoned");

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
