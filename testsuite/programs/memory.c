// The program's own memcpy and memset. Copies of structures call them without a call in the module.
//# With: parts/memory.c
//# Chain copy: inner < memcpy < ...
//# Chain fill: memset < ...
//# Chain after: main
//# Fixed after
#include "show.h"

struct big {
  char bytes[5000];
};

extern const char *volatile memory_name;
static struct big a, b;

NOINLINE static void copy(struct big *to, const struct big *from) {
  memory_name = "copy";
  *to = *from;
  memory_name = 0;
  KEEP;
}

NOINLINE static void fill(struct big *to) {
  memory_name = "fill";
  *to = (struct big){{0}};
  memory_name = 0;
  KEEP;
}

int main(void) {
  a.bytes[7] = 'x';
  copy(&b, &a);
  copy(&b, &a);
  printf("%c\n", b.bytes[7]);
  fill(&b);
  fill(&b);
  printf("%d\n", b.bytes[7]);
  SHOW("after");
  return 0;
}
