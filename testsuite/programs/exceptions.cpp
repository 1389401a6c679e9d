// Exceptions: destructors run while the stack is unwound, handlers and what follows them have the context of
// the function that they stand in.
//# Chain thrower: thrower < middle < outer < main
//# Chain destructor: Guard::~Guard() < middle < outer < main
//# Chain destructor: Guard::~Guard() < outer < main
//# Chain destructor: Guard::~Guard() < middle < rethrows < main
//# Chain handler: outer < main
//# Chain helper: helper < outer < main
//# Chain inner-handler: rethrows < main
//# Chain outer-handler: main
//# Chain sort-handler: main
//# Chain compare: compare < <qsort> < main
//# Chain loop: main
//# Chain after: helper < main
//# Fixed after
//# Levels: -O0 -O1 -O2 -O3 -Os
//# Shapes
#include "show.h"
#include <cstdlib>
#include <stdexcept>

struct Guard {
  const char *name;
  NOINLINE ~Guard() { SHOW(name); KEEP; }
};

NOINLINE static void helper(const char *name) { SHOW(name); KEEP; }

NOINLINE static void thrower(int n, const char *name) {
  if (name) SHOW(name);
  if (n > 0) throw n;
  KEEP;
}

NOINLINE static void middle(int n, const char *name) {
  Guard guard{"destructor"};
  thrower(n, name);
  KEEP;
}

NOINLINE static int outer(int n) {
  try {
    Guard guard{"destructor"};
    middle(n, "thrower");
  } catch (int value) {
    SHOW("handler");
    helper("helper");
    return value;
  }
  return 0;
}

NOINLINE static void rethrows(int n) {
  try {
    middle(n, nullptr);
  } catch (...) {
    SHOW("inner-handler");
    throw;
  }
}

extern "C" int compare(const void *, const void *) {
  SHOW("compare");
  throw std::runtime_error("out of qsort");
}

NOINLINE static int sometimes(int n) {
  if (n % 3 == 0) throw n;
  return n;
}

int main() {
  printf("%d\n", outer(3));
  try {
    rethrows(4);
  } catch (int value) {
    SHOW("outer-handler");
    printf("%d\n", value);
  }
  int numbers[] = {2, 1};
  try {
    qsort(numbers, 2, sizeof *numbers, compare);
  } catch (const std::exception &e) {
    SHOW("sort-handler");
    printf("%s\n", e.what());
  }
  // The loop leaves its body by both ways.
  int sum = 0;
  for (int i = 1; i < 1000; i++) {
    try {
      sum += sometimes(i);
    } catch (int value) {
      sum -= value;
    }
  }
  SHOW("loop");
  printf("%d\n", sum);
  helper("after");
  return 0;
}
