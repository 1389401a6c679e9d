#include "starter.h"
#include <pthread.h>
#include <stdlib.h>

void starter(void *(*start)(void *), void *argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, start, argument) != 0) abort();
  pthread_join(thread, NULL);
}
