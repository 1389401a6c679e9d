#include <pcce.h>
#include <stdio.h>
__attribute__((noinline)) static void work(int n) { printf("%d %s\n", n, PCCE_TOKEN); }
int main(void) {
  work(1);
  return 0;
}
