// Control that comes back by longjmp to code that is not instrumented: what that calls next has its own context, and
// so has the program behind it. From calls, recursion, other libraries' calls, and handlers on stacks of their own.
//# PlainLibrary: parts/lands.c
//# Chain begin: leaf < begin < <interpret> < run < main
//# Chain next: leaf < next < <interpret> < run < main
//# Chain next: leaf < next < <interpret> < run < main
//# Chain begin: leaf < begin < <interpret> < nested < <interpret> < run < main
//# Chain next: leaf < next < <interpret> < nested < <interpret> < run < main
//# Chain nested: leaf < nested < <interpret> < run < main
//# Chain next: leaf < next < <interpret> < run < main
//# Chain handler: leaf < handler < <signal> < <raise> < raises < <interpret> < run < main
//# Chain next: leaf < next < <interpret> < run < main
//# Chain handler: leaf < handler < <signal> < <raise> < raises < <interpret> < run < main
//# Chain begin: leaf < begin < <interpret> < nested < <interpret> < run < main
//# Chain next: leaf < next < <interpret> < nested < <interpret> < run < main
//# Chain nested: leaf < nested < <interpret> < run < main
//# Chain run: leaf < run < main
//# Chain through: leaf < through < main
//# Chain after: main
//# Fixed after
//# Flags: -fPIC
#include "parts/lands.h"
#include "show.h"
#include <signal.h>
#include <stdlib.h>

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }
NOINLINE static void check(int n) { if (n > 0) fail(n); KEEP; }
NOINLINE static void recursive(int n, int value) {
  volatile char room[256];
  room[0] = (char)n;
  if (n > 0) recursive(n - 1, value);
  check(value + room[0]);
}

static void begin(void) { leaf("begin"); }
static void next(void) { leaf("next"); }
static void fails(void) { check(3); KEEP; }
static void fails_deeper(void) { recursive(0, 0); recursive(5, 2); KEEP; }
static void raises(void) { raise(SIGUSR1); KEEP; }
static void handler(int n) { leaf("handler"); recursive(2, n); }

static void (*const inner[])(void) = {begin, fails, fails_deeper, next, fails, NULL};
static void nested(void) { printf("nested %d\n", interpret(inner)); leaf("nested"); }
static void (*const steps[])(void) = {begin, fails, next, fails_deeper, next, nested, next, raises, next, raises,
                                      nested, fails, NULL};
NOINLINE static void run(void) { printf("run %d\n", interpret(steps)); leaf("run"); }

static void (*const silent_steps[])(void) = {fails, fails_deeper, fails, NULL};
// After a call through a pointer that adds to the id, the id is as before.
static int (*volatile pointer)(void (*const *)(void)) = interpret;
NOINLINE static void through(void) { printf("through %d\n", pointer(silent_steps)); leaf("through"); }

int main(void) {
  stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_NODEFER};
  sigaltstack(&stack, NULL);
  sigaction(SIGUSR1, &action, NULL);
  run();
  through();
  SHOW("after");
  return 0;
}
