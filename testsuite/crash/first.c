// The first function of a thread, or one that `exit` calls, recurses until it crashes. Nothing that it calls looks at
// the context.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static volatile long depth;
static int *volatile nothing;

__attribute__((noinline)) static void *walk(void *x) {
  if (depth-- == 0) return (void *)(long)*nothing;
  void *below = walk(x);
  __asm__ volatile("" : "+r"(below));
  return (char *)below + 1;
}

static void ending(void) {
  if (depth-- == 0) *nothing = 1;
  ending();
  __asm__ volatile("");
}

int main(int count, char **arguments) {
  depth = count > 2 ? atoi(arguments[2]) : 0;
  if (!strcmp(arguments[1], "exit")) {
    atexit(ending);
    return 0;
  }
  pthread_t thread;
  pthread_create(&thread, NULL, walk, NULL);
  pthread_join(thread, NULL);
  return 0;
}
