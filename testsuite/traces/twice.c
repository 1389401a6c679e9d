// Two calls of `setjmp` in one function: `longjmp` to the first one behind one to the second, and again behind both.
#include <setjmp.h>
#include <signal.h>
static jmp_buf one, two;
static volatile int seen;
__attribute__((noinline)) static void note(int n) { seen = n; }
__attribute__((noinline)) static void jump(jmp_buf to) {
  note(7);
  longjmp(to, 1);
}
__attribute__((noinline)) static void twice(void) {
  volatile int i = 0;
  setjmp(one);
  note(1);
  if (i < 3) {
    if (setjmp(two) == 0) jump(two);
    note(2);
    i++;
    jump(one);
  }
  note(3);
}
__attribute__((noinline)) static void outer(int deep) {
  if (deep > 0) outer(deep - 1);
  twice();
}
int main(void) { outer(2); }
