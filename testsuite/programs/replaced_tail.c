// Two functions that leave to each other, and would be silent: but the definition of one is weak, and another one runs.
//# With: parts/replaced_tail.c
//# Levels: -O2
//# Chain[!lto] repeat: repeat < <tail match> < user < main
//# Chain[!lto] repeat: repeat < <tail match> < repeat < <tail match> < user < main
//# Chain[!lto] repeat: repeat < <tail match> < other < user < main
//# Chain[!lto] repeat: repeat < <tail match> < repeat < <tail match> < other < user < main
//# Chain[lto] repeat: repeat < match < user < main
//# Chain[lto] repeat: repeat < match < repeat < match < user < main
//# Chain[lto] repeat: repeat < match < other < user < main
//# Chain[lto] repeat: repeat < match < repeat < match < other < user < main
#include "show.h"

static volatile int sum;

int repeat(int n, int kept);
NOINLINE int match(int n, int kept) {
  sum++;
  return n <= 0 ? kept : repeat(n, kept + 1);
}
__attribute__((weak)) NOINLINE int repeat(int n, int kept) {
  sum += kept;
  return match(n - 1, kept);
}
NOINLINE int other(int n) {
  int r = match(n, 7);
  KEEP;
  return r;
}
NOINLINE int user(int n) {
  int r = match(n, 1);
  KEEP;
  r += other(n);
  KEEP;
  return r;
}

int main(void) {
  printf("%d\n", user(2));
  return 0;
}
