// An interpreter: it runs steps, and goes on behind those that fail. Not instrumented.
#include "lands.h"
#include <setjmp.h>
#include <stddef.h>

struct attempt {
  sigjmp_buf place;
  struct attempt *outer;
};
static _Thread_local struct attempt *innermost;

void fail(int value) {
  if (value % 2)
    siglongjmp(innermost->place, value);
  else
    longjmp(innermost->place, value);
}

int interpret(void (*const *steps)(void)) {
  volatile int failed = 0;
  for (volatile int i = 0; steps[i] != NULL; i++) {
    struct attempt own;
    own.outer = innermost;
    innermost = &own;
    if ((i % 2 ? sigsetjmp(own.place, 1) : setjmp(own.place)) == 0)
      steps[i]();
    else
      failed++;
    innermost = own.outer;
  }
  return failed;
}
