// The ends of threads: by return, pthread_exit, thrd_exit and cancellation, attached and detached. Destructors of
// thread-local objects, of keys, and cleanup handlers run afterwards, or on the way: their contexts are right.
//# Chain local: leaf < Local::~Local < ... < <thread> < run < main
//# Chain key: leaf < key_end < <thread> < run < main
//# Chain key-last: leaf < key_end_last < <thread> < run < main
//# Chain cleanup: leaf < cleanup < ... < start < <thread> < run < main
//# Chain guard: leaf < Guard::~Guard < ... < start < <thread> < run < main
//# Chain still: leaf < start < <thread> < run < main
//# Chain main: leaf < main
//# Shapes
#include "show.h"
#include <cstdlib>
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>

NOINLINE static void leaf(const char *name) { SHOW_ACROSS(name); KEEP; }

struct Local {
  int used = 0;
  NOINLINE ~Local() { leaf("local"); KEEP; }
};
static thread_local Local local;

static pthread_key_t key, last_key;
static void key_end(void *) { leaf("key"); KEEP; }
// Once more in each round that there is.
static void key_end_last(void *rounds) {
  if ((long)rounds < 4) pthread_setspecific(last_key, (void *)((long)rounds + 1));
  else leaf("key-last");
  KEEP;
}

NOINLINE static void cleanup(void *) { leaf("cleanup"); KEEP; }

struct Guard {
  NOINLINE ~Guard() { leaf("guard"); KEEP; }
};

enum How { RETURNS, EXITS, EXITS_C11, WAITS, SPINS, ENDS };
static How how;
static sem_t started, waits;

// Frames of recursion and of calls through pointers are on the chain when the thread ends.
NOINLINE static void deep(int n, void (*f)()) {
  Guard guard;
  if (n > 0) deep(n - 1, f);
  else f();
  KEEP;
}

static void waits_for_ever() {
  sem_post(&started);
  sem_wait(&waits);
}
static void spins() {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
  sem_post(&started);
  for (;;) KEEP;
}
static void exits() { pthread_exit(nullptr); }
static void exits_c11() { thrd_exit(0); }

static void *start(void *argument) {
  local.used++;
  pthread_setspecific(key, argument);
  pthread_setspecific(last_key, (void *)1);
  pthread_cleanup_push(cleanup, nullptr);
  switch (how) {
  case EXITS: deep(3, exits); break;
  case EXITS_C11: deep(3, exits_c11); break;
  case WAITS: deep(3, waits_for_ever); break;
  case SPINS: spins(); break;
  default: leaf("still"); KEEP; break;
  }
  pthread_cleanup_pop(0);
  return argument;
}


NOINLINE static void run(How so) {
  pthread_t thread;
  how = so;
  int some = 0;
  if (pthread_create(&thread, nullptr, start, &some) != 0) abort();
  if (so == WAITS || so == SPINS) {
    sem_wait(&started);
    pthread_cancel(thread);
  }
  void *result = nullptr;
  pthread_join(thread, &result);
  printf("%d %d %d\n", so, result == &some, result == PTHREAD_CANCELED);
}

int main() {
  sem_init(&started, 0, 0);
  sem_init(&waits, 0, 0);
  pthread_key_create(&key, key_end);
  pthread_key_create(&last_key, key_end_last);
  for (int so = RETURNS; so < ENDS; so++) run((How)so);
  leaf("main");
  return 0;
}
