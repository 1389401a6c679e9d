/* Calls functions of another module that have names of the C library's, and functions of the C library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int regcomp(int n), helper(int n), by_plain(int (*function)(int), int n);

__attribute__((noinline)) static int back(int n) {
  return helper(n) + 1;
}
static int compare(const void *a, const void *b) {
  return helper(*(const int *)a) - helper(*(const int *)b);
}
int main(void) {
  int values[] = {3, 1, 2}, sum = 0;
  for (int i = 0; i < 3; i++) {
    char *copy = strdup("abc");
    sum += regcomp(i) + (int)strlen(copy) + by_plain(back, i);
    free(copy);
    qsort(values, 3, sizeof *values, compare);
  }
  printf("%d\n", sum);
  return 0;
}
