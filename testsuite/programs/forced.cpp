// Unwinding that is no exception of the program's: pthread_exit and cancellation run destructors; a handler of
// terminate is called where the exception cannot pass.
//# Chain exit-destructor: Guard::~Guard() < leaves < start < ...
//# Chain cancel-destructor: Guard::~Guard() < waits < wait_start < ...
//# Chain terminate: on_terminate < ...
//# Chain after: main
//# ExitStatus: 3
#include "show.h"
#include <cstdlib>
#include <exception>
#include <pthread.h>

struct Guard {
  const char *name;
  NOINLINE ~Guard() { SHOW(name); KEEP; }
};

NOINLINE static void deeper(int n) {
  if (n == 0) pthread_exit(nullptr);
  deeper(n - 1);
  KEEP;
}

NOINLINE static void leaves() {
  Guard guard{"exit-destructor"};
  deeper(3);
}

static void *start(void *) {
  leaves();
  return nullptr;
}

NOINLINE static void waits() {
  Guard guard{"cancel-destructor"};
  for (;;) pause();
}

static void *wait_start(void *) {
  waits();
  return nullptr;
}

NOINLINE static void thrower(int n) {
  if (n > 0) throw n;
}

NOINLINE static void stops(int n) noexcept {
  thrower(n);
  KEEP;
}

static void on_terminate() {
  SHOW("terminate");
  puts("terminate");
  exit(3);
}

int main() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, start, nullptr) != 0) return 1;
  pthread_join(thread, nullptr);
  if (pthread_create(&thread, nullptr, wait_start, nullptr) != 0) return 1;
  pthread_cancel(thread);
  pthread_join(thread, nullptr);
  SHOW("after");
  std::set_terminate(on_terminate);
  stops(1);
  return 0;
}
