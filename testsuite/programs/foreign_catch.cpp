// Code that is not instrumented catches an exception and goes on calling: every function that it calls starts
// with the context of the call that led there.
//# PlainLibrary: parts/catches.cpp
//# Chain thrower: recursive < first < <catches> < caller < main
//# Chain thrower: recursive*2 < first < <catches> < caller < main
//# Chain thrower: recursive*3 < first < <catches> < caller < main
//# Chain guard: Guard::~Guard() < guarded < <catches> < caller < main
//# Chain leaf: leaf < second < <catches> < caller < main
//# Chain second: second < <catches> < caller < main
//# Chain after: after < caller < main
//# Flags: -fPIC
//# Levels: -O0 -O1 -O2
#include "show.h"

extern "C" int catches(void (*first)(int), void (*second)(int));

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }
NOINLINE static void after(const char *name) { SHOW(name); KEEP; }

NOINLINE static void recursive(int n) {
  if (n == 0) {
    SHOW("thrower");
    throw n;
  }
  recursive(n - 1);
  KEEP;
}

struct Guard {
  NOINLINE ~Guard() { SHOW("guard"); KEEP; }
};

static void first(int n) { recursive(n); KEEP; }

static void guarded(int n) {
  Guard guard;
  if (n != 1) throw n;
  KEEP;
}

NOINLINE static void throws(int n) {
  if (n != 1) throw n;
  KEEP;
}

// It catches another type: the exception passes.
static void passed(int n) {
  try {
    throws(n);
  } catch (const char *text) {
    SHOW(text);
  }
  KEEP;
}

static void second(int) {
  leaf("leaf");
  SHOW("second");
}

NOINLINE static void caller() {
  printf("%d\n", catches(first, second));
  after("after");
  printf("%d\n", catches(guarded, second));
  after("after");
  printf("%d\n", catches(passed, second));
  after("after");
}

int main() {
  caller();
  return 0;
}
