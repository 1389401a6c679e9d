#include <pthread.h>
#include <stdlib.h>
#define NEW __attribute__((noinline))
static volatile unsigned seen;
NEW static void one(int n) { seen += n; }
NEW static void two(int n) { seen -= n; }
static void (*volatile calls[2])(int) = {one, two};
NEW static void some(long k) { for (int i = 0; i < 7; i++) calls[i * k & 1](i); }
static void *runs(void *rounds) { for (long k = 0; k != (long)rounds; k++) some(k); return NULL; }
int main(int count, char **words) { (void)count; pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, runs, (void *)atol(words[1]));
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  return 0; }
