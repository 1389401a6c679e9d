// Switches stacks without announcing it.
#include <ucontext.h>
static ucontext_t outer, inner;
static char stack[1 << 16];
static void other(void) { middle(1); }
int main(void) {
  getcontext(&inner);
  inner.uc_stack.ss_sp = stack;
  inner.uc_stack.ss_size = sizeof stack;
  inner.uc_link = &outer;
  makecontext(&inner, other, 0);
  middle(1);
  swapcontext(&outer, &inner);
  return 0;
}
