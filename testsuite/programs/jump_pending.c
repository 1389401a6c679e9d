// siglongjmp out of a handler lets a signal through that came meanwhile, in front of the jump: its handler is called
// out of siglongjmp, with the thread's context that of the function that is jumped to.
//# Chain first: on_first < <signal> < <raise> < jumping < main
//# Chain pending: on_pending < <signal> < ... < on_first < <signal> < <raise> < jumping < main
//# Chain back: jumping < main
//# Chain after: leaf < main
#include "show.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf buffer;

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

static void on_pending(int signal) { (void)signal; SHOW("pending"); KEEP; }
static void on_first(int signal) {
  (void)signal;
  SHOW("first");
  raise(SIGUSR2);
  siglongjmp(buffer, 1);
}

NOINLINE static void jumping(void) {
  if (sigsetjmp(buffer, 1) == 0) raise(SIGUSR1);
  SHOW("back");
  KEEP;
}

int main(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_pending;
  sigaction(SIGUSR2, &action, NULL);
  action.sa_handler = on_first;
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGUSR1, &action, NULL);
  jumping();
  KEEP;
  leaf("after");
  return 0;
}
