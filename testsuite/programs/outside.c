// Contexts that code without the pass takes, however it was reached: by a call that pushes nothing, since its name is
// on the list of functions that never call back; through a pointer; or by a call that pushes.
//# PlainLibrary: parts/outside.c
//# Chain listed: <rand> < draw < middle < recursive < recursive < main
//# Chain listed: <rand> < draw < middle < recursive < recursive*2 < main
//# Chain short: <rand> < draw < middle < recursive < recursive < main
//# Chain short: <rand> < draw < middle < recursive < recursive*2 < main
//# Chain[hybrid] short: <rand> < draw < middle < recursive < recursive < main
//# Chain[hybrid] short: <rand> < draw < middle < recursive*2 < <truncated>
//# Chain pushed: <outside_take> < middle < recursive < recursive < main
//# Chain pushed: <outside_take> < middle < recursive < recursive*2 < main
//# Chain pointer: <?> < through < middle < recursive < recursive < main
//# Chain pointer: <?> < through < middle < recursive < recursive*2 < main
//# Flags: -fno-optimize-sibling-calls
#include "show.h"
#include <stdlib.h>

void outside_take(const char *name);
void (*volatile outside_pointer)(const char *) = outside_take;

NOINLINE static int draw(void) { int n = rand(); KEEP; return n; }
NOINLINE static void through(void) { outside_pointer("pointer"); KEEP; }
NOINLINE static int middle(void) { int n = draw(); outside_take("pushed"); through(); KEEP; return n; }
NOINLINE static int recursive(int n) { int m = n > 0 ? recursive(n - 1) : middle(); KEEP; return m; }

int main(void) {
  printf("%d\n", recursive(1));
  printf("%d\n", recursive(2));
  return 0;
}
