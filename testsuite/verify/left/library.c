#include <pcce.h>
#include <stdio.h>

__attribute__((noinline)) int target(int n) {
  printf("%s pcce:%llu\n", PCCE_TOKEN, (unsigned long long)pcce_context());
  return n;
}

int leaves(int n) {
  if (n == 77)
    puts(PCCE_TOKEN);
  __attribute__((musttail)) return target(n);
}
