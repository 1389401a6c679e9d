// Cleanup handlers of C code without -fexceptions: the C library jumps to them, as longjmp does.
//# With: parts/leaving.c
//# Chain cleanup-inner: cleanup < c_inner < c_outer < c_start < ...
//# Chain cleanup-outer: cleanup < c_outer < c_start < ...
//# Chain cleanup-cancel: cleanup < c_waits < c_cancelled < ...
//# Chain after: main
//# Fixed after
#include "show.h"
#include <pthread.h>

void *c_start(void *argument);
void *c_cancelled(void *argument);

static int run(void *(*f)(void *), int cancel) {
  pthread_t thread;
  void *result = NULL;
  if (pthread_create(&thread, NULL, f, NULL) != 0) return 1;
  if (cancel) pthread_cancel(thread);
  pthread_join(thread, &result);
  return result == PTHREAD_CANCELED ? 2 : 3;
}

int main(void) {
  printf("%d\n", run(c_start, 0));
  printf("%d\n", run(c_cancelled, 1));
  SHOW("after");
  return 0;
}
