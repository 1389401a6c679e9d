// Arguments on the stack: a library's function with such is entered by a call through a pointer, and what the caller
// has in registers is there when it returns.
//# Library: parts/by_value.c
//# LibraryFlags[!plain]: --pcce-mode=module
//# Chain back: back < sums < main
//# Chain back: back < inner < sums < main
//# Chain after: main
#include "show.h"
#include "parts/by_value.h"

typedef long function(long, long, struct big, long (*)(long));
static function *volatile pointer = sums;

NOINLINE static long back(long n) {
  SHOW("back");
  KEEP;
  return n;
}

int main(int argc, char **argv) {
  (void)argv;
  long a = argc * 3L, b = argc * 5L, c = argc * 7L, d = argc * 11L, e = argc * 13L;
  __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
  struct big big = {{11, 22, 33, 44, 55, 66, 77, 88, 99}};
  long r = pointer(1, 2, big, back);
  __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
  printf("%ld %ld %ld %ld %ld %ld\n", r, a, b, c, d, e);
  SHOW("after");
  return 0;
}
