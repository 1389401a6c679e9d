// ThinLTO: each module is encoded by itself, with what was imported into it.
//# Flags: -flto=thin
//# Modes: lto
//# Levels: -O0 -O1 -O2
//# With: parts/templates.cpp
//# Chain int: int twice<int>(int, char const*) < main
//# Chain int-in-other: int twice<int>(int, char const*) < in_other < main
//# Chain long: long twice<long>(long, char const*) < in_other < main
//# Chain method: Counter::next < main
//# Chain method-in-other: Counter::next < in_other < main
//# Chain static: make_static() < instance() < in_other < main
//# Chain after: main
#include "show.h"
#include "parts/templates.h"

int main() {
  printf("%d\n", twice(1, "int"));
  printf("%ld\n", in_other(2));
  Counter counter;
  printf("%d\n", counter.next("method"));
  printf("%d\n", instance() + instance());
  SHOW("after");
  return 0;
}
