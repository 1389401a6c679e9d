// The compiler makes several calls of one. Each has numbers of its own, and all decode to the same frames.
//# Chain turn: turn < main
#include "show.h"

NOINLINE static void turn(const char *name) { SHOW(name); KEEP; }

int main(void) {
#pragma clang loop unroll_count(2)
  for (int i = 0; i < 4; i++) turn("turn");
  return 0;
}
