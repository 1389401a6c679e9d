// Functions that can stand twice in a program, and some that cannot.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

NOINLINE static int add(int a, int b) { return a + b; }

NOINLINE int shared(int x) { return add(x, 2); }

// It has a table with addresses of its blocks.
NOINLINE int interpret(const unsigned char *code, int x) {
  static const void *const table[] = {&&once, &&twice, &&nested, &&end};
  goto *table[*code++];
once:
  x = add(x, 1);
  goto *table[*code++];
twice:
  x = shared(x) + shared(x);
  goto *table[*code++];
nested:
  x = x > 40 ? x : interpret((const unsigned char *)"\1\3", x);
  goto *table[*code++];
end:
  return x;
}

// The table of this one is seen from outside.
const void **addresses;
NOINLINE int exposed(int x) {
  static const void *table[] = {&&even, &&odd};
  addresses = table;
  goto *addresses[x & 1];
even:
  return add(shared(x), 1);
odd:
  return shared(x) + (x > 60 ? 0 : exposed(x + 1));
}

// Assembly defines a name, which must not be there twice.
NOINLINE int labelled(int x) {
  __asm__ volatile("bodies_label:\n\tnop" : "+r"(x));
  return shared(x) + add(x, x);
}

// The letters uid in a name are not the number of a copy, which `%=` is.
NOINLINE int fluid(int x) {
  __asm__ volatile("bodies_fluid:\n\tnop\nbodies_copy%=:\n\tnop" : "+r"(x));
  return shared(x);
}

NOINLINE int numbered(int x) {
  __asm__ volatile("bodies_numbered%=:\n\tnop\n1:\tnop" : "+r"(x));
  return shared(x);
}

static int compare(const void *a, const void *b) { return add(*(const int *)a, -*(const int *)b); }

static jmp_buf place;

NOINLINE static void jump(int x) {
  if (shared(x) > 3)
    longjmp(place, x);
}

NOINLINE int jumps(int x) {
  int came = setjmp(place);
  if (came == 0)
    jump(x);
  return add(came, x);
}

NOINLINE int last(int x) { return shared(x); }

NOINLINE int leaves(int x) { __attribute__((musttail)) return last(x); }

int (*volatile pointers[])(int) = {shared, leaves, exposed, labelled, jumps};

int main(int argc, char **argv) {
  int values[] = {5, 3, 8, 1}, sum = 0;
  (void)argv;
  for (int i = 0; i < 40 + argc; ++i) {
    qsort(values, 4, sizeof *values, compare);
    values[i & 3] = add(values[1], i & 7);
    sum += interpret((const unsigned char[]){0, 1, 2, 0, 3}, values[i & 3]) + exposed(i) + labelled(i) + jumps(i);
    sum += fluid(i) + numbered(i) + leaves(i) + pointers[i % 5](i);
  }
  printf("%d\n", sum);
  return 0;
}
