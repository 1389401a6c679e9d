// Crashes at a fixed depth, or where the stack is full.
#include <string.h>
#define NOINLINE __attribute__((noinline))
NOINLINE static void deep(int n, volatile char *at) {
  char block[64];
  memset(block, n, sizeof block);
  if (n == 0) *at = 1; else deep(n - 1, at);
  __asm__ volatile("" : : "r"(block) : "memory");
}
NOINLINE static int endless(int n) { volatile char block[256]; block[0] = (char)n; return endless(n + 1) + block[0]; }
int main(int n, char **v) {
  if (n > 1) return endless(n);
  deep(5, (volatile char *)8);
  return v == 0;
}
