// Threads that end before their functions return: destructors and cleanup handlers, catch-all handlers that throw on,
// and whatever these call.
//# With: parts/leaving.c
//# Chain exit: Guard::~Guard() < recursive < recursive < start < ...
//# Chain exit: Guard::~Guard() < recursive < start < ...
//# Chain exit-callee: leaf < Guard::~Guard() < recursive < recursive < start < ...
//# Chain exit-callee: leaf < Guard::~Guard() < recursive < start < ...
//# Chain caught: passes < recursive < recursive < start < ...
//# Chain compare: compare < <qsort> < sorts < passes < recursive < recursive < start < ...
//# Chain cancelled: Guard::~Guard() < waits < cancelled < ...
//# Chain cancelled-callee: leaf < Guard::~Guard() < waits < cancelled < ...
//# Chain cancelled-handler: waits < cancelled < ...
//# Chain cleanup-inner: cleanup < ... < c_inner < c_outer < c_start < ...
//# Chain cleanup-outer: cleanup < ... < c_outer < c_start < ...
//# Chain cleanup-cancel: cleanup < ... < c_waits < c_cancelled < ...
//# Chain after: main
//# Flags: -fexceptions
#include "show.h"
#include <cstdlib>
#include <pthread.h>

extern "C" void *c_start(void *);
extern "C" void *c_cancelled(void *);

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

struct Guard {
  const char *name, *callee;
  NOINLINE ~Guard() {
    SHOW(name);
    void (*volatile f)(const char *) = leaf;
    f(callee);
    KEEP;
  }
};

extern "C" int compare(const void *, const void *) {
  SHOW("compare");
  pthread_exit(nullptr);
}

NOINLINE static void sorts() {
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof *numbers, compare);
  KEEP;
}

NOINLINE static void passes() {
  try {
    sorts();
  } catch (...) {
    SHOW("caught");
    throw;
  }
}

NOINLINE static void recursive(int n) {
  Guard guard{"exit", "exit-callee"};
  if (n == 0) passes();
  else recursive(n - 1);
  KEEP;
}

NOINLINE static void *start(void *) {
  recursive(1);
  KEEP;
  return nullptr;
}

NOINLINE static void waits() {
  try {
    Guard guard{"cancelled", "cancelled-callee"};
    for (;;) pthread_testcancel();
  } catch (...) {
    SHOW("cancelled-handler");
    throw;
  }
}

static void *cancelled(void *) {
  waits();
  return nullptr;
}

static int run(void *(*f)(void *), bool cancel) {
  pthread_t thread;
  void *result = nullptr;
  if (pthread_create(&thread, nullptr, f, nullptr) != 0) return 1;
  if (cancel) pthread_cancel(thread);
  pthread_join(thread, &result);
  return result == PTHREAD_CANCELED ? 2 : 3;
}

int main() {
  printf("%d\n", run(start, false));
  printf("%d\n", run(cancelled, true));
  printf("%d\n", run(c_start, false));
  printf("%d\n", run(c_cancelled, true));
  SHOW("after");
  return 0;
}
