#include <stdlib.h>
#define KEEP __asm__ volatile("")
__attribute__((noinline)) static int leaf(int n) { KEEP; return n; }
__attribute__((noinline)) static int inner(int n) { KEEP; return n + 1; }
__attribute__((noinline)) static int outer(int n) { KEEP; return n % 3 ? inner(n) + leaf(n) : inner(n + 1); }
__attribute__((noinline)) static int last(int n) { KEEP; return leaf(n); }
int main(void) { int s = 0; for (int i = 0; i < 9; i++) { s += outer(i); s += last(i) + inner(i); }
  return s > 1000; }
