// Work that moves between threads: behind the context of the thread that runs a task stands the one in which the task
// was submitted. Tasks leave by longjmp or end their thread, run tasks and submit others, and create threads.
//# Flags: -pthread
//# Chain plain: job < <pcce_task_run> < run < worker < <task> < submit < main
//# Chain around: worker < <thread> < start < main
//# Chain nests: nests < <pcce_task_run> < run < worker < <task> < submit < main
//# Chain inner: job < <pcce_task_run> < run < nests < <pcce_task_run> < run < worker < <task> < submit < nests < <pcce_task_run> < run < worker < <task> < submit < main
//# Chain leaves: leaf < leaves < <pcce_task_run> < run < left < worker < <task> < submit < main
//# Chain left: left < worker < <thread> < start < main
//# Chain created: created < <thread> < creates < <pcce_task_run> < run < worker < <task> < submit < main
//# Chain handler: handler < <signal> < <raise> < raise_it < raises < <pcce_task_run> < run < worker < <task> < submit < main
//# Chain ends: ends < <pcce_task_run> < run < last < <task> < submit < main
//# Chain destroyed: destroy < <thread> < main
//# Chain unknown: unknown < <pcce_task_run> < main
//# Chain main: main
#include "show.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

struct work { struct pcce_task task; void (*body)(void *); const char *name; };

NOINLINE static void submit(struct work *work, void (*body)(void *), const char *name) {
  work->body = body;
  work->name = name;
  pcce_task_capture(&work->task);
}

NOINLINE static void run(struct work *work) { pcce_task_run(&work->task, work->body, work); KEEP; }

static void job(void *work) { SHOW_ACROSS(((struct work *)work)->name); KEEP; }

static void nests(void *work) {
  SHOW_ACROSS(((struct work *)work)->name);
  struct work inner;
  submit(&inner, job, "inner");
  run(&inner);
  SHOW_ACROSS(((struct work *)work)->name);
}

static jmp_buf out;
NOINLINE static void leaf(void) { SHOW_ACROSS("leaves"); longjmp(out, 1); }
static void leaves(void *work) { (void)work; leaf(); KEEP; }
NOINLINE static void left(struct work *work) {
  if (setjmp(out) == 0) run(work);
  SHOW_ACROSS("left");
}

static void *created(void *argument) { SHOW_ACROSS("created"); return argument; }
static void creates(void *work) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, created, work) != 0) abort();
  pthread_join(thread, NULL);
}

static void handler(int number) { (void)number; SHOW_ACROSS("handler"); }
NOINLINE static void raise_it(void) { raise(SIGUSR1); KEEP; }
static void raises(void *work) { (void)work; raise_it(); KEEP; }

static void unknown(void *work) { (void)work; SHOW_ACROSS("unknown"); KEEP; }

enum { WORKS = 6 };
static struct work works[WORKS];

static void *worker(void *argument) {
  SHOW_ACROSS("around");
  run(&works[0]);
  // Once more: a task may be run several times.
  run(&works[0]);
  run(&works[1]);
  left(&works[2]);
  run(&works[3]);
  run(&works[4]);
  SHOW_ACROSS("around");
  return argument;
}

static pthread_key_t key;
static void destroy(void *value) { (void)value; SHOW_ACROSS("destroyed"); }
static void ends(void *work) {
  pthread_setspecific(key, work);
  SHOW_ACROSS("ends");
  pthread_exit(NULL);
}
static void *last(void *argument) { run(&works[5]); return argument; }

NOINLINE static void start(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, worker, NULL) != 0) abort();
  pthread_join(thread, NULL);
}

int main(void) {
  signal(SIGUSR1, handler);
  pthread_key_create(&key, destroy);
  submit(&works[0], job, "plain");
  submit(&works[1], nests, "nests");
  submit(&works[2], leaves, "leaves");
  submit(&works[3], creates, "creates");
  submit(&works[4], raises, "raises");
  submit(&works[5], ends, "ends");
  start();
  pthread_t thread;
  if (pthread_create(&thread, NULL, last, NULL) != 0) abort();
  pthread_join(thread, NULL);
  // Its submission is not known.
  static struct pcce_task never;
  pcce_task_run(&never, unknown, NULL);
  SHOW_ACROSS("main");
  return 0;
}
