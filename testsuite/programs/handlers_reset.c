// A handler that its signal has reset (SA_RESETHAND) is shown with the flags that the program gave, and so is an action
// that calls no handler.
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

/* The default action, with flags that it does not need, and with the ones that a handler of before had. */
static void of_no_handler(int flags) {
  struct sigaction none = {.sa_handler = SIG_DFL, .sa_flags = flags}, now;
  sigaction(SIGUSR1, &none, NULL);
  sigaction(SIGUSR1, NULL, &now);
  printf("%d %d\n", now.sa_handler == SIG_DFL, (now.sa_flags & SA_SIGINFO) == (flags & SA_SIGINFO));
}

int main(void) {
  of_no_handler((int)SA_RESETHAND | SA_SIGINFO);
  reset((struct sigaction){.sa_handler = own, .sa_flags = (int)SA_RESETHAND});
  reset((struct sigaction){.sa_sigaction = with_info, .sa_flags = (int)SA_RESETHAND | SA_SIGINFO});
  for (int flags = 0; flags < 2; flags++) of_no_handler((int)SA_RESETHAND | (flags ? SA_SIGINFO : 0));
  reset((struct sigaction){.sa_handler = own, .sa_flags = (int)SA_RESETHAND});
  of_no_handler((int)SA_RESETHAND | SA_SIGINFO);
  return 0;
}
