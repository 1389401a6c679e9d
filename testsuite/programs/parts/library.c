#include "../show.h"
#include "library.h"
#include <pthread.h>

NOINLINE static void library_leaf(const char *name) { SHOW_ACROSS(name); KEEP; }

// Others may call it, too.
NOINLINE static void library_variadic(const char *name, ...) { library_leaf(name); KEEP; }
void (*library_pointer)(const char *, ...) = library_variadic;

NOINLINE static void library_step(void (*f)(int), int n) { f(n); KEEP; }

NOINLINE void library_calls(void (*f)(int), int n) { library_step(f, n); KEEP; }

static void *library_thread(void *argument) { library_leaf("thread"); KEEP; return argument; }

NOINLINE int library_alone(int n) {
  library_leaf("alone");
  library_variadic("variadic");
  library_variadic("variadic", n);
  exported("exported");
  pthread_t thread;
  if (pthread_create(&thread, NULL, library_thread, NULL) != 0) return 0;
  pthread_join(thread, NULL);
  KEEP;
  return n * 2;
}
