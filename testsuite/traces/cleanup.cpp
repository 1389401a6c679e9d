// Exceptions whose landing pads begin with a call: of a destructor that calls others back, while chunks begin and end.
#include <cstdio>

#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")

static int sum;
NOINLINE static void one(int n) { sum += n; KEEP; }
NOINLINE static void two(int n) { if (n % 2) one(n); one(n + 1); KEEP; }
static void (*volatile pointers[])(int) = {one, two, two};

struct Guard {
  int n;
  NOINLINE ~Guard() {
    for (int i = 0; i < n % 5; i++) pointers[i % 3](i);
    KEEP;
  }
};
NOINLINE static void thrower(int n) {
  pointers[n % 3](n);
  if (n % 3 == 0) throw n;
  KEEP;
}
NOINLINE static void inner(int n) {
  Guard guard{n};
  thrower(n);
  KEEP;
}
NOINLINE static void outer(int n) {
  Guard guard{n + 1};
  inner(n);
  two(n);
  KEEP;
}
int main() {
  for (int i = 0; i < 60; i++) {
    try {
      outer(i);
    } catch (int caught) {
      sum += caught;
    }
  }
  printf("%d\n", sum);
}
