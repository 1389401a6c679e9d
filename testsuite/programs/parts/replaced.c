#include "../show.h"
#include <stdlib.h>

const char *copy_name = "twice";

NOINLINE static void helper(void) { SHOW("array"); KEEP; }

NOINLINE size_t strlcpy(char *to, const char *from, size_t size) {
  size_t length = strlen(from);
  SHOW(copy_name);
  if (size > 0) {
    size_t n = length < size ? length : size - 1;
    memcpy(to, from, n);
    to[n] = 0;
  }
  return length;
}

NOINLINE void *reallocarray(void *p, size_t count, size_t size) {
  helper();
  char *q = realloc(p, count * size);
  strlcpy(q, "x", count);
  KEEP;
  return q;
}
