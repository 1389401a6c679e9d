// A function that leaves by a tail call to code without the pass (-DPLAIN), in a thread with an alternate stack.
#ifdef PLAIN
static volatile long spun;
void spin(void) {
  for (int i = 0; i < 500000; i++) spun++;
}
void calls(void (*function)(void)) {
  function();
  __asm__ volatile("");
}
#else
#include <signal.h>
#include <stdlib.h>

void spin(void);
void calls(void (*)(void));
__attribute__((noinline)) void leaves(void) { spin(); }

int main(int count, char **arguments) {
  stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  (void)arguments;
  if (count > 1) sigaltstack(&stack, NULL);
  for (int i = 0; i < 300; i++) calls(leaves);
  return 0;
}
#endif
