// A crash behind a call of a library, in a program without unwind tables: the frame of that call is on the stack.

#include <signal.h>

__attribute__((noinline)) static void ends(int n) {
  if (n == 0)
    raise(SIGSEGV);
  __asm__ volatile("");
}

__attribute__((noinline)) static void leads(int n) {
  ends(n + 1);
  ends(n);
  __asm__ volatile("");
}

int main(void) {
  leads(0);
  return 0;
}
