// Below a frame that has another size each time, the stack offsets of equal contexts differ: there ids tell alone, and
// the numbers of equal contexts are equal.
//# Chain varying: under < small < varying < main
//# Chain varying: under < large < varying < main
//# Chain varying: under < small < varying < main
//# Chain varying: under < large < varying < main
//# Chain varying: under < small < varying < main
//# Chain varying: under < large < varying < main
//# Chain fixed: under < small < main
//# Chain fixed: under < large < main
//# Chain again: under < small < again < again < varying < main
//# Chain again: under < small < again < again < varying < main
#include "show.h"

#include <alloca.h>

// A frame of so many bytes.
#define FRAME(bytes)     \
  char frame_[bytes];    \
  __asm__ volatile("" : : "r"(frame_) : "memory")

static unsigned long long numbers[16];
static int count;
static volatile int three = 3, two = 2; // no call is copied

NOINLINE static void under(const char *name) {
  SHOW(name);
  numbers[count++] = pcce_context();
  KEEP;
}

NOINLINE static void small(const char *name) {
  FRAME(16);
  under(name);
  KEEP;
}

NOINLINE static void large(const char *name) {
  FRAME(400);
  under(name);
  KEEP;
}

NOINLINE static void again(int n) {
  FRAME(80);
  if (n > 0)
    again(n - 1);
  else
    small("again");
  KEEP;
}

NOINLINE static void varying(int size, int deep) {
  char *block = alloca((size_t)size);
  __asm__ volatile("" : : "r"(block) : "memory");
  if (deep) {
    again(1);
    KEEP;
    return;
  }
  small("varying");
  KEEP;
  large("varying");
  KEEP;
}

int main(void) {
  for (int i = 0; i < three; i++) {
    varying(i * 1000, 0);
    KEEP;
  }
  small("fixed");
  KEEP;
  large("fixed");
  KEEP;
  for (int i = 0; i < two; i++) {
    varying(i * 100, 1);
    KEEP;
  }
  int even = numbers[0] == numbers[2] && numbers[2] == numbers[4];
  int odd = numbers[1] == numbers[3] && numbers[3] == numbers[5];
  printf("%d %d %d\n", even, odd, numbers[8] == numbers[9]);
  return 0;
}
