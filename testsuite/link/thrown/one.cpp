#include <pcce.h>
#include <cstdio>
int thrower(int, int, int);
__attribute__((noinline)) static int middle(int n, int a, int b) {
  int sum = thrower(n, 0, a);
  try { sum += thrower(n - 1, a, b); } catch (char) { std::puts(PCCE_TOKEN); }
  return sum + a * b;
}
int main(int count, char **) {
  for (int n = 0; n < 8; n++)
    try { std::printf("%d\n", middle(n, count + 2, n)); }
    catch (...) { std::puts(PCCE_TOKEN); }
}
