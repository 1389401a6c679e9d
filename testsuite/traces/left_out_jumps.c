/* `skip_sets` calls `setjmp`, and `skip_jumps` comes back to it; both are left out of the trace. */
#include <setjmp.h>
#define APART __attribute__((noinline))

static jmp_buf place;
volatile int sum;

APART void step(int n) { sum += n; }
APART void skip_jumps(int n) {
  sum++;
  if (n) longjmp(place, 1);
}
APART void never(void) { sum--; }
APART void inner(int n) {
  skip_jumps(n);
  never();
}
APART void skip_sets(int n) {
  for (volatile int i = 0; i < 2; i++) {
    if (setjmp(place) == 0)
      inner(n);
    else
      step(1);
  }
  step(2);
}
int main(int count, char **arguments) {
  skip_sets(count);
  step(3);
  return 0;
}
