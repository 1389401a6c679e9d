// A signal that comes while the program computes. ThreadSanitizer calls the handler in the next function of libc's that
// waits.
#include <csignal>
#include <cstdio>
#include <pcce.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")

static char token[4096];
static volatile bool called;

extern "C" void on_alarm(int) {
  pcce_token(token, sizeof token);
  called = true;
  KEEP;
}

NOINLINE static void compute() {
  for (long i = 0; i < 200000000 && !called; i++) KEEP;
}

NOINLINE static void wait_for_it() {
  while (!called) usleep(1000);
  KEEP;
}

int main() {
  signal(SIGALRM, on_alarm);
  ualarm(10000, 0);
  compute();
  wait_for_it();
  puts(token);
  return 0;
}
