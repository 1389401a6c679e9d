#include "shared.h"

#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
  return first(*(const int *)a) - first(*(const int *)b);
}
/* It has a table of labels: the module's own body, and calls of other modules in it. */
NOINLINE static int interpret(const char *code, int n) {
  static void *const table[] = {&&add, &&twice, &&end};
  goto *table[*code++ - '0'];
add:
  n += second(n);
  goto *table[*code++ - '0'];
twice:
  n = called_twice(n) + called_twice(n);
  goto *table[*code++ - '0'];
end:
  return n;
}
int Other::value(int n) {
  return in_both(n) + hidden(n);
}
extern "C" int thrower(int n) {
  if (n % 3 == 0) throw n;
  return second(n);
}
extern "C" int pong(int n) {
  return n > 0 ? ping(n - 1) + 1 : 0;
}
extern "C" int back_from_skipped(int n) {
  return second(n);
}
extern "C" int left_to(int n) {
  return second(n) + 1;
}
int main(void) {
  int sum = 0, values[] = {5, 3, 8, 1};
  for (int i = 0; i < 6; i++) {
    try {
      sum += through(i);
    } catch (int n) {
      sum += second(n);
    }
    sum += in_both(i) + weak_one(i) + ping(i) + leaves(i);
  }
  qsort(values, 4, sizeof *values, compare);
  Other other;
  Base base, *both[] = {&other, &base};
  for (Base *one : both) sum += one->value(3);
  sum += interpret("0110012", 3) + labels(3) + skipped(4) + jumps(5);
  sum += by_pointer(first, 1) + by_pointer(compare == 0 ? second : second, 2);
  printf("%d\n", sum);
  return 0;
}
