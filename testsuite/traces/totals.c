#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long total;

__attribute__((noinline)) static void add(const char *amount) {
  total += atol(amount);
}

// Blank lines and remarks.
__attribute__((noinline)) static void skip(const char *line) {
  __asm__ volatile("" : : "r"(line));
}

__attribute__((noinline)) static void order(const char *line) {
  const char *blank = strchr(line, ' ');
  if (blank)
    add(blank + 1);
  else
    skip(line);
}

int main(int argc, char **argv) {
  FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
  char line[80];
  while (file && fgets(line, sizeof line, file))
    order(line);
  printf("%ld\n", total);
  return file == NULL;
}
