#include <pcce.h>
#include <stdio.h>

int target(int), leaves(int);

__attribute__((noinline)) int leaves_too(int n) {
  if (n == 77)
    puts(PCCE_TOKEN);
  __attribute__((musttail)) return target(n);
}

int (*functions[3])(int);

__attribute__((noinline)) int call(int n) {
  int result = functions[n % 3](n);
  __asm__ volatile("");
  return result + 1;
}

int main(void) {
  functions[0] = target;
  functions[1] = leaves;
  functions[2] = leaves_too;
  for (int i = 0; i < 6; i++)
    call(i);
  return 0;
}
