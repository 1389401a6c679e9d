// The actions of libc when longjmp leaves its functions: a once routine that has failed runs again, streams are
// unlocked; and a buffer that is further in than where it leads to, with a signal that waits.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static jmp_buf place;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int tries, failing = 1;
static FILE *stream;

static void initialise(void) {
  if (++tries < 3) longjmp(place, 1);
  puts("initialised");
}

static ssize_t put(void *cookie, const char *text, size_t length) {
  (void)cookie;
  (void)text;
  if (failing) longjmp(place, 1);
  return (ssize_t)length;
}

static void *other(void *argument) {
  fprintf(stream, "x");
  puts("written");
  return argument;
}

static void handler(int signal) { (void)signal; puts("handled"); }

NOINLINE static void jump(sigjmp_buf *from) {
  sigjmp_buf own;
  memcpy(own, *from, sizeof own);
  siglongjmp(own, 1);
}

NOINLINE static void deeper(sigjmp_buf *from) {
  sigjmp_buf own;
  char room[600];
  memset(room, 1, sizeof room);
  memcpy(own, *from, sizeof own);
  jump(&own);
  puts(room);
}

int main(void) {
  cookie_io_functions_t functions = {0, put, 0, 0};
  sigjmp_buf saved;
  sigset_t set;
  pthread_t thread;
  alarm(20);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (setjmp(place)) puts("again");
  pthread_once(&once, initialise);
  stream = fopencookie(NULL, "w", functions);
  setvbuf(stream, NULL, _IONBF, 0);
  if (setjmp(place) == 0) fprintf(stream, "hello"); else puts("failed");
  failing = 0;
  pthread_create(&thread, NULL, other, NULL);
  pthread_join(thread, NULL);
  signal(SIGUSR1, handler);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  if (sigsetjmp(saved, 1) == 0) {
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1);
    deeper(&saved);
  }
  puts("end");
  return 0;
}
