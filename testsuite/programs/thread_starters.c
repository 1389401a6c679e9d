// Threads that a library without the pass creates: nothing is said of their creation, and what they create has its own.
// Threads on stacks that the program provides, of any place and size.
//# PlainLibrary: parts/starter.c
//# Chain foreign: leaf < recurse*4 < foreign
//# Chain second: leaf < recurse*4 < second < <thread> < spawn < foreign
//# Chain provided: leaf < recurse*4 < provided < <thread> < spawn_on < main
//# Chain small: leaf < in_small < <thread> < spawn < main
//# Flags: -fPIC
#include "show.h"
#include "parts/starter.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

NOINLINE static void leaf(const char *name) { SHOW_ACROSS(name); KEEP; }
NOINLINE static void recurse(int n, const char *name) {
  if (n > 0) recurse(n - 1, name);
  else leaf(name);
  KEEP;
}

NOINLINE static void spawn(void *(*start)(void *), const pthread_attr_t *attributes) {
  pthread_t thread;
  if (pthread_create(&thread, attributes, start, NULL) != 0) abort();
  pthread_join(thread, NULL);
}

static void *second(void *argument) { recurse(3, "second"); return argument; }
static void *foreign(void *argument) {
  recurse(3, "foreign");
  spawn(second, NULL);
  return argument;
}

static void *provided(void *argument) { recurse(3, "provided"); return argument; }
NOINLINE static void spawn_on(void *memory, size_t size) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstack(&attributes, memory, size) != 0) abort();
  if (pthread_create(&thread, &attributes, provided, NULL) != 0) abort();
  pthread_join(thread, NULL);
}

// A small stack.
static void *in_small(void *argument) { leaf("small"); return argument; }

int main(void) {
  static char own[1 << 17] __attribute__((aligned(64)));
  starter(foreign, NULL);
  void *low = mmap(NULL, 1 << 17, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (low == MAP_FAILED) abort();
  spawn_on(low, 1 << 17);
  spawn_on(own, sizeof own);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 1 << 16);
  spawn(in_small, &attributes);
  return 0;
}
