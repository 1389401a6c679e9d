// Code that is not instrumented installs handlers: their contexts are those of handlers, whatever they interrupt.
//# PlainLibrary: parts/handles.c
//# Chain first: leaf < first < <signal> < <raise> < middle < main
//# Chain second: leaf < second < <signal> < <raise> < middle < main
//# Chain first: leaf < first < <signal> < <raise> < middle < main
//# Chain context: leaf < with_context < <signal> < <raise> < middle < main
//# Chain after: leaf < main
//# Flags: -fPIC
#include "parts/handles.h"
#include "show.h"

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }
static void first(int n) { (void)n; leaf("first"); }
static void second(int n) { (void)n; leaf("second"); }
static void with_context(int n, siginfo_t *info, void *context) {
  leaf(n == info->si_signo && context != NULL ? "context" : "wrong");
}

NOINLINE static void middle(int n) { raise(n); KEEP; }

int main(void) {
  printf("%d", handle(SIGUSR1, 0, first) == SIG_DFL);
  middle(SIGUSR1);
  printf("%d", handle(SIGUSR1, 1, second) == first);
  middle(SIGUSR1);
  printf("%d", handle(SIGUSR1, 2, first) == second);
  middle(SIGUSR1);
  handle_with_context(SIGUSR2, with_context);
  middle(SIGUSR2);
  printf("%d\n", handle(SIGUSR2, 1, SIG_DFL) != SIG_DFL);
  leaf("after");
  return 0;
}
