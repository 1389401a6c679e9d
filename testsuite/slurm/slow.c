#include <stdio.h>
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) static int odd(int n) { __asm__ volatile(""); return 3 * n + 1; }
__attribute__((noinline)) static int even(int n) { __asm__ volatile(""); return n / 2; }
int main(int argc, char **argv) { int s = 0; double t = argc > 1 ? atof(argv[1]) : 0;
  for (int i = 1; i < 2000; i++) { for (int n = i; n != 1; s++) n = n % 2 ? odd(n) : even(n);
    struct timespec p = {0, (long)(t * 500000)}; nanosleep(&p, NULL); }
  printf("%d\n", s); return 0; }
