#include <stdio.h>
__attribute__((noinline)) int steps(int n) {
  int steps = 0;
  while (n != 1) {
    if (n & 1)
      printf("%d is odd\n", n), n = 3 * n + 1;
    else
      printf("%d is even\n", n), n /= 2;
    steps++;
  }
  return steps;
}
int main(void) {
  int all = steps(6) + steps(1);
  if (all == 1000)
    puts("never");
  return all != 8;
}
