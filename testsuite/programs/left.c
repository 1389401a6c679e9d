// Tail calls that leave a frame to a function of another module: of a library to another one and back, of the program
// to a library, and of what a thread began with. The chain says that a frame is gone, whoever takes the context.
//# Library: parts/left_middle.c parts/left_inner.c
//# Chain pointer: left_inner < <tail> < call < main
//# Chain name: left_inner < <tail left_middle> < main
//# Chain back: back < <tail> < call < main
//# Chain again: left_inner < <tail> < call < back < <tail> < call < main
//# Chain around: left_inner < <tail> < around < call < main
//# Chain itself: left_stays < call < main
//# Chain stays: left_stays < <tail> < call < main
//# Chain[-O0] ordinary: left_inner < left_ordinary < call < main
//# Chain[-O2] ordinary: left_inner < <tail> < call < main
//# Chain program: left_long < <tail> < call_long < main
//# Chain known: left_long < <tail to_next> < main
//# Chain sorted: compare < <qsort> < main
//# Chain thread: left_thread_inner < <tail>
//# Chain started: left_thread_inner < <tail>
//# Chain after: left_inner < call < main
#include "parts/left.h"
#include "show.h"
#include <pthread.h>
#include <stdlib.h>

NOINLINE static int call(left_function *f, const char *name) {
  left_function *volatile called = f;
  int result = called(name);
  KEEP;
  return result;
}

NOINLINE static int back(const char *name) {
  if (name[0] == 'a') {
    left_next = left_inner;
    return call(left_middle, name) + 1;
  }
  SHOW(name);
  return 1;
}

// A cycle of one call through a pointer, which therefore pushes.
static left_function *volatile around_next;
NOINLINE static int around(const char *name) {
  int result = around_next(name);
  KEEP;
  return result;
}

// Of the program to a library. Only for calls of this type nobody knows whether one was made.
static left_long_function *volatile next_long = left_long;
NOINLINE static long to_next(const char *name, long n) { MUSTTAIL next_long(name, n); }
NOINLINE static long call_long(left_long_function *f, const char *name) {
  left_long_function *volatile called = f;
  long result = called(name, 1);
  KEEP;
  return result;
}

static int compare(const void *a, const void *b) {
  (void)a;
  (void)b;
  SHOW("sorted");
  return 0;
}

// Threads begin with functions that leave for others.
static void *thread(void *name) { MUSTTAIL left_thread_next(name); }

int main(void) {
  left_next = left_inner;
  printf("%d\n", call(left_middle, "pointer"));
  printf("%d\n", left_middle("name"));
  left_next = back;
  printf("%d\n", call(left_middle, "back"));
  printf("%d\n", call(left_middle, "again"));
  left_next = left_stays;
  printf("%d\n", call(left_stays, "itself"));
  printf("%d\n", call(left_middle, "stays"));
  left_next = left_inner;
  printf("%d\n", call(left_ordinary, "ordinary"));
  printf("%d\n", (int)call_long(to_next, "program"));
  printf("%d\n", (int)to_next("known", 2));
  // Nothing there can take a context; verify mode looks whether it finds a state that can be.
  left_next = left_silent;
  printf("%d\n", call(left_middle, "silent"));
  printf("%d\n", call(left_ordinary, "silent"));
  around_next = left_middle;
  printf("%d\n", call(around, "silent"));
  left_next = left_inner;
  printf("%d\n", call(around, "around"));
  next_long = left_silent_long;
  printf("%d\n", (int)call_long(to_next, "silent"));
  int numbers[2] = {1, 2};
  qsort(numbers, 2, sizeof *numbers, compare);
  pthread_t created;
  left_thread_next = left_thread_inner;
  pthread_create(&created, NULL, thread, "thread");
  pthread_join(created, NULL);
  pthread_create(&created, NULL, left_thread, "started");
  pthread_join(created, NULL);
  call(left_inner, "after");
  return 0;
}
