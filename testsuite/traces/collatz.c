#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) long odd(long n) { return 3 * n + 1; }
__attribute__((noinline)) long even(long n) { return n / 2; }

int main(int argc, char **argv) {
  long most = argc > 1 ? atol(argv[1]) : 10, steps = 0;
  for (long i = 1; i <= most; i++)
    for (long n = i; n != 1; steps++)
      n = n % 2 ? odd(n) : even(n);
  printf("steps: %ld\n", steps);
}
