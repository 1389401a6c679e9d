// A crash in a function with an instruction of an extension, which is not executed.
#include <stdlib.h>
static volatile int x;
__attribute__((noinline)) static void die(int n) {
  if (n) abort();
  x++;
}
static inline __attribute__((always_inline)) void check(int n) {
  x += n;
  __builtin_trap();
}
__attribute__((noinline)) static void middle(int n) {
  if (x == 99) __asm__ volatile(INSTRUCTION);
  if (n == 1) die(1);
  if (n == 2) check(n);
  x++;
}
int main(int count, char **arguments) {
  (void)arguments;
  middle(count);
  x++;
  return 0;
}
