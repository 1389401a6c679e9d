// Contexts of C, with a handler that takes some at random. Built with each row of flags.toml: ../src/matrix.rs. Lines
// of the output that begin with @ or % are compared with a backtrace, all others with those of the plain program.
#define _GNU_SOURCE
#include "calls.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/time.h>

static __thread volatile long sum;
static volatile sig_atomic_t ticks;
static jmp_buf environment;

NOINLINE static void leaf(long n) { sum += n; if (n % 5 == 0) SHOW("leaf"); KEEP; }
static ALWAYS_INLINE void inlined(long n) { leaf(n); KEEP; if (n % 7 == 0) SHOW("inlined"); KEEP; }
NOINLINE static void middle(long n) { inlined(n); KEEP; leaf(n + 1); KEEP; inlined(n + 2); KEEP; }
NOINLINE static void other(long n) { middle(n); KEEP; leaf(n); KEEP; }
NOINLINE static void recursive(long n) {
  leaf(n); KEEP;
  if (n > 0) { recursive(n - 1); KEEP; middle(n); KEEP; }
}
NOINLINE static void odd(long n);
NOINLINE static void even(long n) { if (n > 0) { odd(n - 1); KEEP; } leaf(n); KEEP; }
NOINLINE static void odd(long n) { if (n > 0) { even(n - 1); KEEP; } recursive(1); KEEP; }

action *const actions[] = {leaf, middle, other, recursive, part_leaf, part_middle};
NOINLINE static void by_pointer(long n) {
  for (int i = 0; i < 6; i++) { actions[i](n + i); KEEP; }
}

NOINLINE static long variadic(int count, ...) {
  va_list list;
  long all = 0;
  va_start(list, count);
  for (int i = 0; i < count; i++) all += va_arg(list, long);
  va_end(list);
  leaf(all); KEEP;
  return all;
}

NOINLINE static int compare(const void *a, const void *b) {
  middle(*(const int *)a); KEEP;
  return *(const int *)a - *(const int *)b;
}

NOINLINE static void large(long n) {
  volatile char room[5000];
  room[n * 100] = (char)n;
  volatile char *more = __builtin_alloca((size_t)n * 16 + 16);
  more[n] = room[n * 100];
  by_pointer(more[n]); KEEP;
}

NOINLINE static void jumps(long n) {
  leaf(n); KEEP;
  if (n > 1) longjmp(environment, (int)n);
  jumps(n + 1); KEEP;
}

NOINLINE static void work(long n) {
  int values[] = {3, 1, 2, 5, 4};
  recursive(n); KEEP;
  even(n); KEEP;
  by_pointer(n); KEEP;
  sum += variadic(3, n, n + 1L, n + 2L); KEEP;
  qsort(values, 5, sizeof values[0], compare); KEEP;
  large(n); KEEP;
  part_calls(n, other); KEEP;
}

static void *thread(void *argument) {
  work((long)argument); KEEP;
  return argument;
}

NOINLINE static long spin(long n) { for (long i = 0; i < 200; i++) sum += i * n; return sum; }
NOINLINE static long spins(long n, int depth) {
  long all = spin(n); KEEP;
  if (depth > 0) { all += spins(n + 1, depth - 1); KEEP; }
  return all + part_spins(n);
}

static void on_signal(int signal) {
  char token[2048];
  (void)signal;
  if (++ticks > SIGNALS) return;
  pcce_token(token, sizeof token); show_backtrace("signal", token);
  KEEP;
}

int main(void) {
  pthread_t other_thread;
  work(3); KEEP;
  if (setjmp(environment) == 0) { jumps(0); KEEP; }
  work(4); KEEP;
  if (pthread_create(&other_thread, NULL, thread, (void *)5)) return 3;
  pthread_join(other_thread, NULL); KEEP;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigaction(SIGALRM, &action, NULL);
  struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  // Not without end, where signals are late.
  for (int i = 0; i < 100000 && ticks < SIGNALS; i++) { spins(i, 3); KEEP; }
  setitimer(ITIMER_REAL, &never, NULL);
  printf("%d\n", ticks > 0 || SIGNALS == 0);
  return 0;
}
