#include <pcce.h>
#include <stdio.h>
#include <stdlib.h>
int odd(long), through(long);
extern int (*next)(long);
__attribute__((noinline)) int show(void) { puts(PCCE_TOKEN); return 1; }
__attribute__((noinline)) int even(long n) {
  if (n == 0) { int r = show(); __asm__ volatile(""); return r; }
  return odd(n - 1);
}
__attribute__((noinline)) int back(long n) {
  if (n == 0) { int r = show(); __asm__ volatile(""); return r; }
  return through(n - 1);
}
int main(int c, char **v) {
  next = back;
  int r = even(4); __asm__ volatile("");
  r += even(2000000); __asm__ volatile("");
  r += through(5); __asm__ volatile("");
  r += through(2000001); __asm__ volatile("");
  return r != 4;
}
