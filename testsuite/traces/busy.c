// Threads and a forked process that call all the time, for about a second.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) static int leaf(int n) {
  __asm__ volatile("" : "+r"(n));
  return n * 3 + (n & 1);
}

__attribute__((noinline)) static int tree(int n) {
  if (n < 2)
    return leaf(n);
  return n & 3 ? tree(n - 1) + tree(n - 2) : leaf(n) + tree(n - 1);
}

static void *work(void *rounds) {
  long sum = 0;
  for (long i = 0; i < (long)rounds; i++) {
    sum += tree(17 + i % 3);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return (void *)sum;
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 300;
  pid_t child = fork();
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, work, (void *)rounds);
  long sum = (long)work((void *)rounds);
  for (int i = 0; i < 2; i++) {
    void *more;
    pthread_join(threads[i], &more);
    sum += (long)more;
  }
  if (child > 0)
    waitpid(child, NULL, 0);
  printf("%ld\n", sum);
  return 0;
}
