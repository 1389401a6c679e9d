// Calls through pointers that reach functions of an instrumented library: they push in the executable's place.
// Exceptions leave them for code that is not instrumented, which goes on calling.
//# PlainLibrary: parts/catches.cpp
//# Library: parts/diverted.cpp
//# Chain thrower: library_leaf < library_throws < caller < main
//# Chain second: library_leaf < library_second < caller < main
//# Chain sum: library_leaf < library_sum < caller < main
//# Chain own: own < caller < main
//# Chain after: caller < main
//# Flags: -fPIC
#include "show.h"
#include "parts/diverted.h"

extern "C" int catches(void (*first)(int), void (*second)(int));

static void own(int) { SHOW("own"); KEEP; }

NOINLINE static void caller(void (*first)(int), void (*second)(int), long (*sum)(int, ...)) {
  int (*volatile pointer)(void (*)(int), void (*)(int)) = catches;
  printf("%d\n", pointer(first, second));
  SHOW("after");
  printf("%d\n", pointer(first, own));
  SHOW("after");
  first(1);
  second(1);
  printf("%ld %ld\n", sum(1, 2), sum(2, 3, 4));
  try {
    sum(3, 1, 1, 1);
  } catch (int n) {
    printf("%d\n", n);
    SHOW("after");
  }
}

int main() {
  caller(library_throws, library_second, library_sum);
  return 0;
}
