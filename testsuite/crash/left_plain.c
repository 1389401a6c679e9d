// A function leaves its activation to one of the C library by a tail call, and that crashes. The function is
// instrumented, silent or not.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static size_t length(const char *text) { return strlen(text); }

__attribute__((noinline)) static size_t shows(const char *text) {
  if (text) puts(getenv("HOME"));
  return strlen(text);
}

int main(int argc, char **argv) {
  const char *text = argc > 5 ? argv[0] : NULL;
  size_t found = argv[1][0] == 's' ? shows(text) : length(text);
  printf("%zu\n", found);
  return 0;
}
