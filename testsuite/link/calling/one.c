#include <pcce.h>
#include <stdio.h>
int two(int n, int (*f)(int));
__attribute__((noinline)) int show(int n) {
  printf("%s %llu\n", PCCE_TOKEN, (unsigned long long)pcce_context());
  return n + 1;
}
int main(void) { return two(3, show) + show(1) != 16; }
