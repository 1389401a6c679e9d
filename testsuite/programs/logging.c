// PCCE_TOKEN in a line of a log: the capture stands where the macro does.
//# Chain one: work < main
//# Chain two: inlined detail < work < main
//# Chain[-O0] two: detail < work < main
//# Lines one: one < work
//# Flags: -Wall -Wextra -pedantic -Werror
//# Shapes
#include "show.h"

static inline void detail(void) {
  // Both tokens of a call are alive in it.
  const char *first = PCCE_TOKEN;
  show_line("two", strlen(first) == strlen(PCCE_TOKEN) ? first : "differ", pcce_context());
}

NOINLINE static void work(void) {
  show_line("one", PCCE_TOKEN, pcce_context()); //@one
  detail();
}

int main(void) {
  work(); //@work
  return 0;
}
