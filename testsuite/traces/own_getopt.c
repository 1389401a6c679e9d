#include <stdlib.h>
#define NAME(f) __attribute__((noinline)) f { __asm__ volatile(""); return 0; }
NAME(int getopt(int n, char *const *w, const char *o))
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int n, char **w) { int a[4] = {4, 2, 3, 1}; int (*volatile f)(int, char *const *, const char *) = getopt;
  for (int i = 0; i < 9; i++) { qsort(a, 4, sizeof *a, compare); n += i % 2 ? getopt(n, w, "") : f(n, w, ""); }
  return n > 1; }
