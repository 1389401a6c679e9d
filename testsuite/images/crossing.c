// What a call into another image costs, by scheme (docs/images.md). Counted by callgrind:
//
//   clang-19 -O2 -fno-inline -o target/crossing testsuite/images/crossing.c
//   valgrind --tool=callgrind --callgrind-out-file=/dev/null target/crossing SCHEME
//
// The schemes are numbers; 0 is the call alone. Each makes a million calls.

#include <stdlib.h>

struct frame {
  struct frame *previous;
  const void *site;
  unsigned long id, number;
};

// The thread's block.
static _Thread_local struct {
  unsigned long id;
  struct frame *top;
  unsigned long outer;
  const unsigned long *table;
} block __attribute__((tls_model("local-exec")));

// What the runtime has written for the call site.
#define NOT_ENCODED (~0ul)
static volatile struct site {
  unsigned long value, most, scale, digit;
  void *callee;
} site = {3, 1 << 20, 64, 5, 0};
static volatile unsigned long table[] = {3, 4};

static volatile struct known {
  unsigned long id, outer, number;
  const void *site;
} known[1024];

static void callee(void) { __asm__ volatile(""); }

static void (*volatile target)(void) = callee;

static void push(void (*to)(void)) {
  struct frame frame = {block.top, (const void *)&site, block.id, 0};
  block.top = &frame;
  block.id = 0;
  __asm__ volatile("" ::: "memory");
  to();
  block.top = frame.previous;
  block.id = frame.id;
}

static void alone(void (*to)(void)) {
  to();
  __asm__ volatile("");
}

static void tables(void (*to)(void)) {
  unsigned long value = site.value;
  if (value == NOT_ENCODED) return push(to);
  block.id += value;
  to();
  block.id -= value;
}

// Through a pointer: the value is that of one callee.
static void tables_checked(void (*to)(void)) {
  if (to != site.callee) return push(to);
  unsigned long value = site.value;
  block.id += value;
  to();
  block.id -= value;
}

// The table is the sub-path's, and an activation goes on with the one with which it began.
static void epochs(void (*to)(void)) {
  const volatile unsigned long *now = block.table;
  unsigned long value = now[1];
  if (value == NOT_ENCODED) return push(to);
  block.id += value;
  to();
  block.id -= value;
}

static void radix(void (*to)(void)) {
  unsigned long id = block.id;
  if (id > site.most) return push(to);
  block.id = id * site.scale + site.digit;
  to();
  block.id = id;
}

static void interned(void (*to)(void)) {
  unsigned long id = block.id, outer = block.outer;
  const void *here = (const void *)&site;
  volatile struct known *one = &known[(id * 31 + outer + ((unsigned long)here >> 3)) & 1023];
  if (one->id != id || one->outer != outer || one->site != here) return push(to);
  block.outer = one->number;
  block.id = 0;
  to();
  block.outer = outer;
  block.id = id;
}

// Calls within an image.
static void immediate(void (*to)(void)) {
  block.id += 3;
  to();
  block.id -= 3;
}

static void loaded(void (*to)(void)) {
  block.id += table[0];
  to();
  block.id -= table[0];
}

static void loaded_by_epoch(void (*to)(void)) {
  block.id += ((const volatile unsigned long *)block.table)[0];
  to();
  block.id -= ((const volatile unsigned long *)block.table)[0];
}

int main(int argc, char **argv) {
  static void (*const schemes[])(void (*)(void)) = {
      alone, push, tables, tables_checked, epochs, radix, interned, immediate, loaded, loaded_by_epoch};
  unsigned scheme = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
  if (scheme >= sizeof schemes / sizeof *schemes) return 1;
  site.callee = (void *)target;
  block.table = (const unsigned long *)table;
  for (int i = 0; i < 1024; i++) known[i].site = (const void *)&site;
  for (int i = 0; i < 1000000; i++) schemes[scheme](target);
  return 0;
}
