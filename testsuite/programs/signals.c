// Signal handlers: their own chain, the boundary, and the interrupted chain. Installed by sigaction, by signal and
// through a pointer, nested, left by siglongjmp; the program sees its own handlers when it asks.
//# Chain raised: in_handler < on_usr1 < <signal> < <raise> < raising < main
//# Chain nested: on_usr2 < <signal> < <raise> < on_nested < <signal> < <raise> < nesting < main
//# Chain left: in_handler < on_left < <signal> < <raise> < leaving < main
//# Chain back: leaving < main
//# Chain timer: on_alarm < <signal> < ... < busy < main
//# Chain at: on_pointer < <signal> < <raise> < pointing < main
//# Chain after: busy < main
#include "show.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf buffer;
static volatile sig_atomic_t ticks;
static volatile long work;

NOINLINE static void in_handler(const char *name) { SHOW(name); KEEP; }

static void on_usr1(int signal, siginfo_t *info, void *context) {
  (void)context;
  printf("%d %d\n", signal == SIGUSR1, info->si_pid == getpid());
  in_handler("raised");
  KEEP;
}

static void on_usr2(int signal) { (void)signal; SHOW("nested"); KEEP; }
static void on_nested(int signal) { (void)signal; raise(SIGUSR2); KEEP; }
static void on_pointer(int signal) { (void)signal; SHOW("at"); KEEP; }
static void on_left(int signal) { (void)signal; in_handler("left"); siglongjmp(buffer, 1); }

// Interrupts anywhere: between an update and its call, too.
static void on_alarm(int signal) {
  (void)signal;
  if (ticks++ == 50) SHOW("timer");
}

NOINLINE static void raising(void) { raise(SIGUSR1); KEEP; }
static int (*volatile install)(int, const struct sigaction *, struct sigaction *) = sigaction;
NOINLINE static void pointing(void) { raise(SIGUSR1); KEEP; }
NOINLINE static void nesting(void) { raise(SIGTERM); KEEP; }

NOINLINE static void leaving(void) {
  if (sigsetjmp(buffer, 1) == 0) raise(SIGHUP);
  SHOW("back");
  KEEP;
}

NOINLINE static void leaf(long n) { work += n; }
NOINLINE static void indirect(void (*f)(long), long n) { f(n); KEEP; }

NOINLINE static void busy(int last) {
  for (long i = 0; i < 1000; i++) {
    leaf(i);
    indirect(leaf, i);
    leaf(i + 1);
  }
  if (last) SHOW("after");
}

int main(void) {
  struct sigaction action, old;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_usr1;
  action.sa_flags = SA_SIGINFO;
  printf("%d\n", sigaction(SIGUSR1, &action, NULL));
  printf("%d\n", sigaction(SIGUSR1, NULL, &old));
  printf("%d %d\n", old.sa_sigaction == on_usr1, (old.sa_flags & SA_SIGINFO) != 0);
  printf("%d\n", signal(SIGUSR2, on_usr2) == SIG_DFL);
  printf("%d\n", signal(SIGUSR2, on_nested) == on_usr2);
  printf("%d\n", signal(SIGUSR2, on_usr2) == on_nested);
  sigaction(SIGUSR2, NULL, &old);
  printf("%d %d\n", old.sa_handler == on_usr2, (old.sa_flags & SA_SIGINFO) != 0);
  printf("%d\n", signal(SIGKILL, on_usr2) == SIG_ERR);
  signal(SIGTERM, on_nested);
  signal(SIGHUP, on_left);
  raising();
  nesting();
  leaving();
  memset(&action, 0, sizeof action);
  action.sa_handler = on_pointer;
  printf("%d\n", install(SIGUSR1, &action, NULL));
  pointing();

  signal(SIGALRM, on_alarm);
  struct itimerval timer = {{0, 500}, {0, 500}};
  setitimer(ITIMER_REAL, &timer, NULL);
  while (ticks < 200) busy(0);
  memset(&timer, 0, sizeof timer);
  setitimer(ITIMER_REAL, &timer, NULL);
  busy(1);
  printf("%d\n", signal(SIGALRM, SIG_IGN) == on_alarm);
  printf("%d\n", signal(SIGALRM, SIG_DFL) == SIG_IGN);
  return 0;
}
