/* Signal handlers with a `setjmp` and a `longjmp` of their own, which call as many functions as is asked for. */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#define APART __attribute__((noinline))

static jmp_buf place;
static int calls;
volatile int sum;

APART void step(int n) { sum += n & 1; }
APART void jumps(void) {
  if (setjmp(place) == 0)
    longjmp(place, 1);
  step(2);
}
APART void handler(int number) {
  for (int i = 0; i < calls; i++)
    step(i);
  jumps();
  step(number);
}
int main(int count, char **arguments) {
  calls = count > 1 ? atoi(arguments[1]) : 10;
  signal(SIGUSR1, handler);
  for (int i = 0; i < 3000000 / (calls + 100); i++)
    raise(SIGUSR1);
  return 0;
}
