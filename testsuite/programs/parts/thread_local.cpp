#include "../show.h"

int held(int n);

struct Held {
  int n;
  NOINLINE Held() : n(1) { SHOW("made"); KEEP; }
  NOINLINE ~Held() { KEEP; }
};

thread_local Held one;

NOINLINE int held(int n) {
  n += one.n;
  SHOW("after");
  return n;
}
