// The program has a reallocarray, strlcpy and malloc_usable_size of its own, in another file. In module mode its
// callers do not know of them, so the functions push at their entry, behind a boundary.
//# With: parts/replaced.c
//# Chain[!module] array: helper < reallocarray < user < main
//# Chain[module] array: helper < reallocarray < <unknown>
//# Chain[!module] copy: strlcpy < user < main
//# Chain[module] copy: strlcpy < <unknown>
//# Chain[!module] twice: strlcpy < reallocarray < user < main
//# Chain[module] twice: strlcpy < reallocarray < <unknown>
//# Chain after: main
//# Flags: -fno-builtin
//# Fixed after
#include "show.h"
#include <stdlib.h>

void *reallocarray(void *p, size_t count, size_t size);
size_t strlcpy(char *to, const char *from, size_t size);
extern const char *copy_name;

NOINLINE static void user(int n) {
  char *p = reallocarray(NULL, (size_t)n, 3);
  copy_name = "copy";
  size_t length = strlcpy(p, "context", (size_t)n);
  printf("%d %s\n", (int)length, p);
  free(p);
  KEEP;
}

int main(void) {
  user(20);
  SHOW("after");
  return 0;
}
