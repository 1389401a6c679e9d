#include <stdio.h>
__attribute__((noinline)) static int take(int c) { __asm__ volatile(""); return c; }
int main(void) { int c, n = 0; while ((c = getchar()) != EOF) n += take(c) == 'x';
  FILE *f = fopen("made", "r"); if (f) return 1; f = fopen("made", "w"); fclose(f);
  printf("%d\n", n); return 0; }
