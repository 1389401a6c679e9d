#include <pcce.h>
#include <stdio.h>
int two(int), three(int, int (*)(int)), four(int);
__attribute__((noinline)) int show(int n) { puts(PCCE_TOKEN); return n + 1; }
__attribute__((noinline)) int other(int n) { puts(PCCE_TOKEN); return n - 1; }
__attribute__((noinline)) static int own(int n) { return two(n); }
__attribute__((noinline)) static int last(int n) { return show(n + 1); }
__attribute__((noinline)) static int again(int n) { return show(n + 2); }
int main(void) {
  int sum = own(1) + last(2) + own(3) + again(4) + three(5, show) + three(6, other) + four(7);
  printf("sum %d\n", sum);
  return 0;
}
