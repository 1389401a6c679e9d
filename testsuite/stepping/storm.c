// A timer interrupts at any point, in several threads. Its handler takes the context on an alternate stack, is itself
// interrupted, and is left by siglongjmp at times. Lines of show.h.
#define _GNU_SOURCE
#include "../programs/show.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

enum { TICKS = 600 };
static volatile sig_atomic_t ticks;
static __thread sigjmp_buf environment;
static __thread volatile sig_atomic_t armed;
static __thread volatile long sum;
static __thread int values[32];

static void on_nested(int signal) { (void)signal; SHOW("nested"); KEEP; }
static void on_timer(int signal, siginfo_t *info, void *context) {
  (void)signal; (void)info; (void)context;
  int tick = ticks++;
  if (tick >= TICKS) return;
  SHOW("storm");
  if (tick % 5 == 0) { raise(SIGUSR1); KEEP; }
  if (tick % 7 == 0 && armed) { armed = 0; siglongjmp(environment, 1); }
}

NOINLINE static void leaf(long n) { sum += n; }
static ALWAYS_INLINE void inlined(long n) { leaf(n); KEEP; }
NOINLINE static void sums(long n) { leaf(n); KEEP; inlined(n + 1); leaf(n + 2); KEEP; }
NOINLINE static int compare(const void *a, const void *b) { sums(1); KEEP; return *(const int *)a - *(const int *)b; }
NOINLINE static void recursive(int n) { if (n > 0) { recursive(n - 1); KEEP; } sums(n); KEEP; }
NOINLINE static void calls(void (*f)(long), long n) { f(n); KEEP; leaf(n); KEEP; }
NOINLINE static void jumper(void) {
  if (sigsetjmp(environment, 1) == 0) {
    armed = 1;
    sums(7);
    KEEP;
  }
  armed = 0;
  sums(8);
  KEEP;
}
NOINLINE static void work(void) {
  sums(3);
  KEEP;
  recursive(5);
  KEEP;
  calls(sums, 2);
  KEEP;
  for (int i = 0; i < 32; i++) values[i] = i * 13 % 32;
  qsort(values, 32, sizeof values[0], compare);
  KEEP;
  jumper();
  KEEP;
  snprintf((char[64]){0}, 64, "%ld %f", sum, (double)sum);
  KEEP;
}

static void *thread(void *argument) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  sigaltstack(&stack, NULL);
  while (ticks < TICKS) { work(); KEEP; }
  return argument;
}

int main(void) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  sigaltstack(&stack, NULL);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_timer;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  // One tick at a time: they share the thread's buffer for the token.
  sigaddset(&action.sa_mask, SIGALRM);
  sigaddset(&action.sa_mask, SIGPROF);
  sigaction(SIGALRM, &action, NULL);
  sigaction(SIGPROF, &action, NULL);
  signal(SIGUSR1, on_nested);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, thread, NULL);
  struct itimerval timer = {{0, 900}, {0, 900}};
  setitimer(ITIMER_PROF, &timer, NULL);
  setitimer(ITIMER_REAL, &timer, NULL);
  while (ticks < TICKS) { work(); KEEP; }
  memset(&timer, 0, sizeof timer);
  setitimer(ITIMER_PROF, &timer, NULL);
  setitimer(ITIMER_REAL, &timer, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
