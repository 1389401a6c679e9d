#include <stdlib.h>
__attribute__((noinline)) int last(int n) { if (n == 0) abort(); return n; }
__attribute__((noinline)) int step(int n) { return n & 1 ? last(n) : n + last(n + 2); }
int main(void) { int s = 0; for (int i = 3000000; i >= -2; i--) s += step(i) & 1; return s; }
