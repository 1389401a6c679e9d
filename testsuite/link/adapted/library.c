/* A library that takes a token now and then. The compiler is told that what it does most is seldom. */
#include <pcce.h>
#include <stdio.h>

#define NOINLINE __attribute__((noinline))

static long calls;

NOINLINE static long deeper(long value) {
  if (++calls % 1000000 == 77) printf("far [%s]\n", PCCE_TOKEN);
  return value ^ calls;
}
NOINLINE static long seldom(long value) {
  return deeper(value) * 3;
}
NOINLINE static long often(long value) {
  return deeper(value) + 1;
}
long step_of_library(long value) {
  return __builtin_expect(calls >= 0, 0) ? often(value) : seldom(value);
}
