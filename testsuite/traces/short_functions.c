#include <stdio.h>
#define NEW __attribute__((noinline)) static int
static volatile int seen;
NEW leaf(int n) { seen = n; return n & 3; }
NEW odd(int n) { return n % 3 == 0 ? leaf(n) : n % 3 == 1 ? leaf(n) + leaf(n + 1) : 1; }
NEW even(int n) { seen = n; if (n % 5 == 1) return odd(n / 2) + 1; return n; }
static int (*volatile which[2])(int) = {even, odd};
NEW deep(int n, int left) { return left == 0 ? which[n & 1](n) : deep(n / 3, left - 1) + (n & 1); }
int main(void) {
  int s = 0;
  for (int i = 0; i < 300; i++) s += i % 7 == 2 ? even(i) : deep(i, i % 4);
  printf("%d\n", s);
}
