// Exceptions in fibers, exceptions out of them, and the end of a thread in the middle of one of its fibers.
//# Cut
//# Chain throwing: leaf < Guard::~Guard < throwing < body < entry_body
//# Chain caught: leaf < body < entry_body
//# Chain after: leaf < body < entry_body
//# Chain main: leaf < resume < main
//# Chain key: leaf < key_end < <thread> < run < main
//# Chain exiting: leaf < Guard::~Guard < throwing < exits < <thread> < run < main
#include "show.h"
#include "../src/machine/switch.h"
#include <pthread.h>
#include <stdexcept>

enum { STACK = 1 << 17 };
static thread_local void *own_pointer, *fiber_pointer;
static thread_local struct pcce_fiber own_state, fiber_state;

NOINLINE static void leaf(const char *name) { SHOW_ACROSS(name); KEEP; }

struct Guard {
  const char *name;
  NOINLINE ~Guard() { leaf(name); KEEP; }
};

NOINLINE static void resume() {
  pcce_fiber_save(&own_state);
  switch_stack(&own_pointer, fiber_pointer);
  pcce_fiber_restore(&own_state);
  leaf("main");
}
NOINLINE static void leave() {
  pcce_fiber_save(&fiber_state);
  switch_stack(&fiber_pointer, own_pointer);
  pcce_fiber_restore(&fiber_state);
  KEEP;
}

NOINLINE static void throwing(const char *name, void (*f)()) {
  Guard guard{name};
  leave();
  f();
}
static void throws() { throw std::runtime_error("thrown in a fiber"); }
static void leaves_thread() { pthread_exit(nullptr); }

NOINLINE static void body() {
  try {
    throwing("throwing", throws);
  } catch (const std::exception &e) {
    puts(e.what());
    leaf("caught");
    leave();
  }
  leaf("after");
}
static void entry_body(void *) {
  body();
  throw 42;
}
static void entry() {
  try {
    pcce_fiber_run(entry_body, nullptr);
  } catch (int n) {
    printf("%d\n", n);
  }
  leave();
  abort();
}

static pthread_key_t key;
static void key_end(void *) { leaf("key"); KEEP; }
static void exits(void *) { throwing("exiting", leaves_thread); }
static void exits_entry() { pcce_fiber_run(exits, nullptr); }

static char stacks[2][STACK] __attribute__((aligned(16)));
static void *start(void *argument) {
  pthread_setspecific(key, argument);
  fiber_pointer = new_stack(stacks[1], STACK, exits_entry);
  pcce_fiber_save(&own_state);
  switch_stack(&own_pointer, fiber_pointer);
  pcce_fiber_restore(&own_state);
  switch_stack(&own_pointer, fiber_pointer);
  return argument;
}
NOINLINE static void run() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, start, stacks) != 0) abort();
  pthread_join(thread, nullptr);
}

int main() {
  fiber_pointer = new_stack(stacks[0], STACK, entry);
  for (int i = 0; i < 3; i++) resume();
  pthread_key_create(&key, key_end);
  run();
  return 0;
}
