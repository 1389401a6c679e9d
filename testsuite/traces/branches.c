#include <stdlib.h>
__attribute__((noinline)) static int steps(long n) {
  int s = 0; for (; n != 1; s++) n = n % 2 ? 3 * n + 1 : n / 2; return s; }
int main(int argc, char **argv) { int s = 0;
  for (int i = 1; i < 2000; i++) s += steps(i + argc); return s < atoi("5"); }
