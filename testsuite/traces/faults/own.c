#include <setjmp.h>
#include <signal.h>
void says(const char *), guarded(void (*)(void)), away(void);
#define OWN __attribute__((noinline))
static sigjmp_buf place; static volatile int *bad;
static int plainly; static void handler(int s) { (void)s; if (plainly) away(); siglongjmp(place, 1); }
OWN void next(int n) { says("next"); says(n ? "one" : "none"); }
OWN void faults(int n) { says("before"); *bad = n; next(n); next(0); }
OWN void calls(int n) { faults(n); next(n); }
OWN void done(void) { says("done"); }
OWN void inner(void) { faults(2); next(3); }
int main(void) { struct sigaction act = { 0 }; act.sa_handler = handler; act.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &act, 0);
  for (volatile int i = 0; i < 3; i++) { if (!sigsetjmp(place, 1)) calls(i); else done(); }
  plainly = 1; guarded(inner); done(); next(1); return 0; }
