// Workers that do different things, in the order of the argument, and wait as often as their place says.

#include <pthread.h>

#define OUT __attribute__((noinline))

static volatile int sum;

OUT static void waits(void) {
  sum++;
}
OUT static void step(int n) {
  sum += n;
}

struct job {
  int kind, place;
};

static void *work(void *argument) {
  struct job *job = argument;
  for (int i = 0; i < 100 * job->kind; i++) {
    if (i % 10 < job->place)
      waits();
    step(i);
  }
  return 0;
}

int main(int count, char **words) {
  pthread_t threads[4];
  struct job jobs[4];
  (void)count;
  for (int i = 0; i < 4; i++) {
    jobs[i] = (struct job){words[1][i] - '0', i + 1};
    pthread_create(&threads[i], 0, work, &jobs[i]);
  }
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], 0);
  return 0;
}
