// Takes numbers and tokens before main and in it.
#include <pcce.h>
#include <stdio.h>

__attribute__((noinline)) static void show(void) {
  char token[512];
  pcce_token(token, sizeof token);
  printf("%llu %s\n", (unsigned long long)pcce_context(), token);
}
static void (*volatile pointer)(void) = show;

__attribute__((constructor)) static void before_main(void) {
  pointer();
  __asm__ volatile("" ::: "memory");
}
int main(void) {
  pointer();
  __asm__ volatile("" ::: "memory");
  return 0;
}
