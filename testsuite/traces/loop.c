#include <stdlib.h>
#define KEEP __asm__ volatile("")
__attribute__((noinline)) static int even(int n) { KEEP; return n; }
__attribute__((noinline)) static int odd(int n) { KEEP; return even(n) + 1; }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) { int a[3] = {3, 1, 2}, s = 0; qsort(a, 3, sizeof *a, compare);
  for (int i = 0; i < 3; i++) s += i % 2 ? odd(i) : even(i); return s > 100; }
