// One build of a fleet (-DBUILD=N): walks at random through functions that call one another, and writes a log with the
// context of each end of the walk.
#include <pcce.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long long state = BUILD;
static unsigned drawn(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define DECLARE(n) static void f##n(void);
EACH(DECLARE)
#define NAME(n) f##n,
static void (*volatile functions[])(void) = {EACH(NAME)};

static int depth;
__attribute__((noinline)) static void walk(void) {
  if (drawn() % 3 == 0 || depth > 12) {
    printf("request %u is done %s\n", drawn() % 1000, PCCE_TOKEN);
    return;
  }
  depth++;
  unsigned next = drawn() % 8;
  if (drawn() % 4 == 0) functions[next]();
#define CALL(n) else if (next == n) f##n();
  EACH(CALL)
  depth--;
}
#define DEFINE(n) \
  __attribute__((noinline)) static void f##n(void) { \
    walk(); \
    if (n == BUILD % 8) walk(); \
  }
EACH(DEFINE)

int main(int argc, char **argv) {
  for (long left = argc > 1 ? atol(argv[1]) : 1; left > 0; left--) walk();
  return 0;
}
