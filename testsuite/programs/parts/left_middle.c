// Functions that leave by a tail call to their argument.
#include "left.h"
#include "../show.h"

left_function *left_next;
left_thread_function *left_thread_next;

NOINLINE int left_middle(const char *name) { MUSTTAIL left_next(name); }

// Part of what may be a cycle: its address is in the module.
NOINLINE int left_ordinary(const char *name) { return left_next(name); }
left_function *left_address = left_ordinary;

NOINLINE int left_stays(const char *name) {
  SHOW(name);
  KEEP;
  return 3;
}

NOINLINE void *left_thread(void *name) { MUSTTAIL left_thread_next(name); }
