// Counted calls. ARGUMENT: how often `often` calls; `fork` and `_exit` let a child do it, too. With LIBRARY the part
// that a shared library has, which the program uses with USES_LIBRARY. CHANGED is a later version of the source.
#include <pcce.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")

int library(int n);

#ifdef LIBRARY
NOINLINE static int inner(int n) { return pcce_context() != 0 ? n : 0; }
int library(int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += inner(i);
  return sum;
}
#else
static volatile int seldom_calls, contexts;
NOINLINE static void target(void) { contexts += pcce_context() != 0; KEEP; }
// The compiler expects a loop to run, and the call below not to.
NOINLINE static void seldom(void) {
  for (int i = 0; i < seldom_calls; i++) target();
  KEEP;
}
NOINLINE static void often(int n) {
  if (__builtin_expect(n > 0, 0)) target();
  KEEP;
}
#ifdef CHANGED
NOINLINE static void added(void) { target(); KEEP; }
#endif
NOINLINE static void work(int n) {
#ifdef CHANGED
  added();
#endif
  seldom();
  for (int i = 0; i < n; i++) often(i + 1);
  KEEP;
}
static void (*volatile pointer)(int) = work;

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 0;
  if (argc > 2) {
    pid_t child = fork();
    if (child == 0) {
      work(2 * n);
      if (strcmp(argv[2], "_exit") == 0) _exit(0);
      exit(0);
    }
    waitpid(child, NULL, 0);
  }
  pointer(n);
  int sum = 0;
#ifdef USES_LIBRARY
  sum = library(n);
#endif
  printf("%d %d\n", contexts, sum);
  return 0;
}
#endif
