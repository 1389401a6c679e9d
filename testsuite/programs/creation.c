// The contexts in which threads were created, over several generations: pthread_create and C11 threads, detached ones,
// with attributes, out of recursion, and by code that is not instrumented.
//# Chain main: main
//# Chain first: work < first < <thread> < spawn < main
//# Chain second: work < second < <thread> < spawn < first < <thread> < spawn < main
//# Chain third: work < third < <thread> < spawn < second < <thread> < spawn < first < <thread> < spawn < main
//# Chain c11: work < c11 < <thread> < spawn_c11 < main
//# Chain recursive: work < start < <thread> < spawn < create < deep*6 < main
//# Chain attributes: work < attributed < <thread> < spawn_with < main
//# Chain pointer: work < from_pointer
//# Chain relay: work < relay < <thread> < spawn < relay < <thread> < spawn < relay < <thread> < ...
//# Shapes
#include "show.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <threads.h>

NOINLINE static void work(const char *name) { SHOW_ACROSS(name); KEEP; }

NOINLINE static void spawn(void *(*start)(void *), void *argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, start, argument) != 0) abort();
  pthread_join(thread, NULL);
}

static void *third(void *argument) { work("third"); return argument; }
static void *second(void *argument) { work("second"); spawn(third, argument); return argument; }
static void *first(void *argument) { work("first"); spawn(second, argument); return argument; }

static int c11(void *argument) { work("c11"); return *(int *)argument - 100; }

NOINLINE static void spawn_c11(void) {
  thrd_t thread;
  int argument = 58, result = 0;
  if (thrd_create(&thread, c11, &argument) != thrd_success) abort();
  thrd_join(thread, &result);
  printf("%d\n", result);
}

static void *start(void *argument) { work("recursive"); return argument; }
NOINLINE static void create(void) { spawn(start, NULL); KEEP; }
NOINLINE static void deep(int n) { if (n > 0) deep(n - 1); else create(); KEEP; }

static sem_t done;
static void *attributed(void *argument) {
  work("attributes");
  sem_post(&done);
  return argument;
}

NOINLINE static void spawn_with(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 1 << 16);
  if (pthread_create(&thread, &attributes, attributed, NULL) != 0) abort();
  sem_wait(&done);
  // A size that no address space has: nothing is created, and nothing is left behind.
  pthread_attr_setstacksize(&attributes, (size_t)1 << 56);
  printf("%d\n", pthread_create(&thread, &attributes, attributed, NULL) != 0);
  pthread_attr_destroy(&attributes);
}

static void *from_pointer(void *argument) { work("pointer"); return argument; }
NOINLINE static void spawn_by(int (*creator)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)) {
  pthread_t thread;
  if (creator(&thread, NULL, from_pointer, NULL) != 0) abort();
  pthread_join(thread, NULL);
}

// A thread creates the next one: what is kept of its ancestors is bounded.
static void *relay(void *argument) {
  long n = (long)argument;
  if (n > 0) {
    spawn(relay, (void *)(n - 1));
  } else {
    char buffer[4096];
    size_t length = pcce_thread_token(buffer, sizeof buffer);
    if (length > 0 && (length < 3000 || length >= sizeof buffer || strcmp(buffer + length - 2, "+~") != 0))
      printf("%zu %s\n", length, buffer);
    work("relay");
  }
  return argument;
}

int main(int argc, char **argv) {
  (void)argv;
  SHOW_ACROSS("main");
  spawn(first, NULL);
  spawn_c11();
  deep(5);
  sem_init(&done, 0, 0);
  spawn_with();
  spawn_by(argc > 0 ? pthread_create : NULL);
  spawn(relay, (void *)300);
  return 0;
}
