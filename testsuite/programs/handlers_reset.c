// A handler that its signal has reset (SA_RESETHAND) is shown with the flags that the program gave.
//# Chain plain: leaf < own < <signal> < <raise> < middle < reset < main
//# Chain info: leaf < with_info < <signal> < <raise> < middle < reset < main
#include <signal.h>
#include "show.h"

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }
static void own(int n) { (void)n; leaf("plain"); }
static void with_info(int n, siginfo_t *info, void *context) { (void)n, (void)info, (void)context; leaf("info"); }

NOINLINE static void middle(void) { raise(SIGUSR1); KEEP; }

NOINLINE static void reset(struct sigaction action) {
  struct sigaction now;
  sigaction(SIGUSR1, &action, NULL);
  middle();
  sigaction(SIGUSR1, NULL, &now);
  printf("%d %d\n", now.sa_handler == SIG_DFL, (now.sa_flags & SA_SIGINFO) == (action.sa_flags & SA_SIGINFO));
}

int main(void) {
  reset((struct sigaction){.sa_handler = own, .sa_flags = (int)SA_RESETHAND});
  reset((struct sigaction){.sa_sigaction = with_info, .sa_flags = (int)SA_RESETHAND | SA_SIGINFO});
  return 0;
}
