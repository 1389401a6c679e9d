#include <stdio.h>
void far(int), other(int);
extern void (*volatile ways[3])(int);
static int sum;
void add(int n) {
  sum += n; __asm__ volatile("" ::: "memory");
  if (n == 5) ways[1](n + 1);
  __asm__ volatile("" ::: "memory");
}
static void same(int n) { far(n); far(n + 1); __asm__ volatile("" ::: "memory"); }
int main(void) {
  for (int i = 0; i < 9; i++) { same(i); ways[i % 8 == 7](i); ways[2](i); }
  other(3);
  printf("%d\n", sum);
  return 0;
}
