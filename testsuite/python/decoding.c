// Prints a token and a number of a context.
#include <inttypes.h>
#include <pcce.h>
#include <stdio.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b) {
  printf("%s\n%" PRIu64 "\n", PCCE_TOKEN, pcce_context());
  return *(int *)a - *(int *)b;
}
__attribute__((noinline)) static void number(void) { printf("%" PRIu64 "\n", pcce_context()); }
int main(void) {
  int sizes[] = {3, 1};
  qsort(sizes, 2, sizeof *sizes, by_size);
  number();
  return 0;
}
