// Threads that are cancelled at any instruction, and whose cleanup calls.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
NOINLINE static int leaf(int n) {
  __asm__ volatile("");
  return n;
}
NOINLINE static int work(int n) { return n <= 0 ? 1 : leaf(n) + work(n - 1) + leaf(n - 1); }
NOINLINE static void cleanup(void *argument) {
  (void)argument;
  for (int i = 0; i < 200; i++) work(5);
}
NOINLINE static void *thread(void *argument) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  pthread_cleanup_push(cleanup, argument);
  for (;;) work(12);
  pthread_cleanup_pop(0);
  return NULL;
}
int main(void) {
  srand(1);
  for (int i = 0; i < 150; i++) {
    pthread_t id;
    if (pthread_create(&id, NULL, thread, NULL)) return 2;
    usleep((useconds_t)(rand() % 1000));
    pthread_cancel(id);
    pthread_join(id, NULL);
  }
  return 0;
}
