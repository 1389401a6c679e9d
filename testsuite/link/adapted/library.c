/* A library that takes a token now and then. */
#include <pcce.h>
#include <stdio.h>

static long calls;

__attribute__((noinline)) static long deeper(long value) {
  if (++calls % 1000000 == 0) printf("far [%s]\n", PCCE_TOKEN);
  return value ^ calls;
}
long step_of_library(long value) {
  return deeper(value) + 1;
}
