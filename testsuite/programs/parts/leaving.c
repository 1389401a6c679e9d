#include "../show.h"
#include <pthread.h>

NOINLINE static void cleanup(void *name) { SHOW(name); KEEP; }

NOINLINE static void c_inner(int n) {
  pthread_cleanup_push(cleanup, "cleanup-inner");
  if (n == 0) pthread_exit(NULL);
  pthread_cleanup_pop(0);
  KEEP;
}

NOINLINE static void c_outer(int n) {
  pthread_cleanup_push(cleanup, "cleanup-outer");
  c_inner(n);
  pthread_cleanup_pop(0);
  KEEP;
}

void *c_start(void *argument) {
  c_outer(argument != NULL);
  return argument;
}

NOINLINE static void c_waits(void) {
  pthread_cleanup_push(cleanup, "cleanup-cancel");
  for (;;) pthread_testcancel();
  pthread_cleanup_pop(0);
}

void *c_cancelled(void *argument) {
  c_waits();
  KEEP;
  return argument;
}
