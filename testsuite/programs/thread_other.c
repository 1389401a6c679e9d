// Threads that no instrumented code seems to create, since it does so through pointers, and that end in the middle of
// calls: nothing of these is left for destructors of keys, nor for cleanup handlers. The main thread does so, too.
//# Chain key: leaf < key_end
//# Chain cleanup: leaf < cleanup < start
//# Chain cleanup-thrd: leaf < cleanup < start < start_thrd
//# Chain cleanup-main: leaf < cleanup < start < main
//# Shapes
#include "show.h"
#include <pthread.h>
#include <stdlib.h>
#include <threads.h>
#include <unistd.h>

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

static pthread_key_t key;
static const char *where;
static int ends[2];
NOINLINE static void use_stack(void) {
  char buffer[20000];
  memset(buffer, 0x55, sizeof buffer);
  KEEP;
  __asm__ volatile("" ::"r"(buffer));
}
static void key_end(void *value) { (void)value; use_stack(); leaf("key"); KEEP; }
NOINLINE static void cleanup(void *value) { (void)value; use_stack(); leaf(where); KEEP; }

static void exits(void) { pthread_exit(NULL); }
static int compares(const void *a, const void *b) { (void)a; (void)b; exits(); KEEP; return 0; }
static void exits_below_libc(void) {
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof *numbers, compares);
  KEEP;
}
static void waits(void) { char byte; while (read(ends[0], &byte, 1) >= 0) KEEP; }
static void computes(void) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  for (volatile long i = 0;; i++) KEEP;
}
static void (*const ways[])(void) = {exits, exits_below_libc, waits, computes};

NOINLINE static void deep(int n, void (*end)(void)) { if (n > 0) deep(n - 1, end); else end(); KEEP; }
NOINLINE static void flat(int n, void (*end)(void)) { (void)n; end(); KEEP; }
static void (*const depths[])(int, void (*)(void)) = {deep, flat};

// The way, the depth, and whether there is a handler.
struct run { int way, depth, handled; };

static void *start(void *argument) {
  struct run *run = argument;
  pthread_setspecific(key, argument);
  if (run->handled) {
    pthread_cleanup_push(cleanup, NULL);
    depths[run->depth](20, ways[run->way]);
    pthread_cleanup_pop(0);
  } else {
    depths[run->depth](20, ways[run->way]);
  }
  KEEP;
  return argument;
}
static int start_thrd(void *argument) { start(argument); KEEP; return 0; }

static int (*volatile create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = pthread_create;
static int (*volatile create_thrd)(thrd_t *, int (*)(void *), void *) = thrd_create;

int main(void) {
  if (pthread_key_create(&key, key_end) != 0 || pipe(ends) != 0) abort();
  for (int i = 0; i < 16; i++) {
    struct run run = {i / 4, i / 2 % 2, i % 2};
    pthread_t thread;
    where = "cleanup";
    if (create(&thread, NULL, start, &run) != 0) abort();
    if (run.way >= 2) {
      usleep(20000);
      pthread_cancel(thread);
    }
    pthread_join(thread, NULL);
    if (run.way >= 2) continue;
    where = "cleanup-thrd";
    thrd_t other;
    if (create_thrd(&other, start_thrd, &run) != thrd_success) abort();
    thrd_join(other, NULL);
  }
  where = "cleanup-main";
  start(&(struct run){1, 0, 1});
  return 1;
}
