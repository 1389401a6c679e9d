// Decides by the addresses of constants, variables and blocks of the heap: programs that share its trace must have them
// at the same places.
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

static const char *const names[] = {"one", "two", "three", "four"};
static int variable = 1;
static char block[5000];

int main(void) {
  for (int i = 0; i < 500; i++) {
    take(names[i % 4]);
    take(&variable);
    take(&block[i]);
    void *heap = malloc((size_t)i * 7);
    take(heap);
    if (i % 3)
      free(heap);
  }
  return 0;
}
