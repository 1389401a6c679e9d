// Decides by the addresses of functions, constants, variables and blocks of the heap: programs that share its trace
// must have them at the same places.
#include <stdint.h>
#include <stdlib.h>

#define KEEP __asm__ volatile("")
__attribute__((noinline)) static void odd(void) { KEEP; }
__attribute__((noinline)) static void even(void) { KEEP; }

__attribute__((noinline)) static void take(const void *address) {
  uintptr_t bits = (uintptr_t)address;
  for (int i = 4; i < 40; i++)
    if (bits >> i & 1)
      odd();
    else
      even();
}

// What it records is more or less code in the programs, in front of `last`.
__attribute__((noinline)) static void many(int n) {
  switch (n % 7) {
  case 0: odd(); break;
  case 1: even(); break;
  case 2: odd(); even(); break;
  case 3: even(); odd(); break;
  case 4: odd(); odd(); break;
  case 5: even(); even(); break;
  default: odd(); odd(); even();
  }
}

__attribute__((noinline)) static void last(int n) {
  if (n & 1)
    many(n);
}

static const char *const names[] = {"one", "two", "three", "four"};
static int variable = 1;
static char block[5000];

int main(void) {
  for (int i = 0; i < 500; i++) {
    take(names[i % 4]);
    take(&variable);
    take(&block[i]);
    last(i);
    take((const void *)(uintptr_t)last);
    take((const void *)(uintptr_t)main);
    void *heap = malloc((size_t)i * 7);
    take(heap);
    if (i % 3)
      free(heap);
  }
  return 0;
}
