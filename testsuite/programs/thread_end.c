// Threads that end in the middle, in C: no landing pad restores anything on the way, and without unwind tables
// glibc leaves all activations at once. Destructors of keys start from an empty context.
//# Chain key: leaf < key_end < <thread> < run < main
//# Chain cleanup: leaf < cleanup < start < <thread> < run < main
//# Chain main: leaf < main
//# With: parts/thread_end.c
//# Flags: -fno-asynchronous-unwind-tables -fno-unwind-tables
#include "show.h"
#include "parts/thread_end.h"
#include <pthread.h>
#include <stdlib.h>

NOINLINE static void leaf(const char *name) { SHOW_ACROSS(name); KEEP; }

static pthread_key_t key;
NOINLINE static void use_stack(void) {
  char buffer[20000];
  memset(buffer, 0x55, sizeof buffer);
  KEEP;
  __asm__ volatile("" ::"r"(buffer));
}
static void key_end(void *value) { (void)value; use_stack(); leaf("key"); KEEP; }
NOINLINE static void cleanup(void *value) { (void)value; leaf("cleanup"); KEEP; }

static int with_cleanup;
static void exits(void) { pthread_exit(NULL); }

static void *start(void *argument) {
  pthread_setspecific(key, argument);
  if (with_cleanup) {
    pthread_cleanup_push(cleanup, NULL);
    apply(20, exits);
    pthread_cleanup_pop(0);
  } else {
    apply(20, exits);
  }
  return argument;
}

NOINLINE static void run(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, start, &thread) != 0) abort();
  pthread_join(thread, NULL);
}

int main(void) {
  pthread_key_create(&key, key_end);
  run();
  with_cleanup = 1;
  run();
  leaf("main");
  return 0;
}
