// Takes a number in a new context for each character of standard input, and writes a line with it.
#include <pcce.h>
#include <stdio.h>
#include <stdlib.h>

static int one(const void *a, const void *b) {
  (void)a, (void)b;
  return printf("one pcce:%llu\n", (unsigned long long)pcce_context()), 0;
}
static int two(const void *a, const void *b) {
  (void)a, (void)b;
  return printf("two pcce:%llu\n", (unsigned long long)pcce_context()), 0;
}

int main(void) {
  int (*const compares[])(const void *, const void *) = {one, two};
  setvbuf(stdout, 0, _IOLBF, 0);
  for (int step = 0; getchar() != EOF; step++) {
    int numbers[2] = {1, 2};
    qsort(numbers, 2, sizeof *numbers, compares[step % 2]);
  }
  return 0;
}
