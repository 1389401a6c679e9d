#include "../show.h"
#include <setjmp.h>

jmp_buf trap_back;
const char *volatile trap_name;

__attribute__((used)) NOINLINE void on_trap(void) {
  SHOW(trap_name);
  longjmp(trap_back, 1);
}
