#include "thread_end.h"

__attribute__((noinline)) void apply(int n, void (*f)(void)) {
  if (n > 0) apply(n - 1, f);
  else f();
  __asm__ volatile("" ::: "memory");
}
