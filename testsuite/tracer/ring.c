/* Writes bits from a function that main calls through another one, and is killed. usage: ring EVENTS */
#include "emitted.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static void inner(long events) {
  for (long i = 0; i < events; i++)
    append(9, i & 511);
}

__attribute__((noinline)) static void outer(long events) {
  inner(events);
  __asm__ volatile("");
}

int main(int count, char **arguments) {
  (void)count;
  outer(atol(arguments[1]));
  kill(getpid(), SIGKILL);
  return 0;
}
