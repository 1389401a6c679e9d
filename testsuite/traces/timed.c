// A timer's handler forks at any instruction: the children go on with what was interrupted. Each process prints how
// often it has called what, from its beginning on.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEW __attribute__((noinline))

static volatile unsigned seen;
static volatile int forks, most, rounds = 1 << 30;
static unsigned long ones, twos, comparisons, at_fork[3];
static int (*volatile pointer)(int);

NEW static int one(int n) {
  ones++;
  seen += n;
  if (seen & 1)
    seen++;
  return n;
}

NEW static int two(int n) {
  twos++;
  return one(n) + one(n + 1);
}

static int compare(const void *a, const void *b) {
  comparisons++;
  return *(const int *)a - *(const int *)b;
}

NEW static int climb(int n) { return n ? climb(n - 1) + one(n) : two(n); }

static void set_timer(int microseconds) {
  struct itimerval timer = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

static void handles(int signal) {
  (void)signal;
  if (forks == most)
    return;
  forks++;
  if (fork() == 0) {
    at_fork[0] = ones, at_fork[1] = twos, at_fork[2] = comparisons;
    most = forks, rounds = 100;
    set_timer(0);
  }
}

int main(int count, char **words) {
  most = atoi(words[1]);
  pointer = one;
  signal(SIGALRM, handles);
  set_timer(count > 2 ? atoi(words[2]) : 300);
  for (; rounds > 0 && !(at_fork[0] == 0 && forks == most); rounds--) {
    int numbers[5] = {5, 3, 1, 2, 4};
    qsort(numbers, 5, sizeof *numbers, compare);
    climb(rounds % 5);
    pointer(rounds);
  }
  if (at_fork[0] == 0) {
    set_timer(0);
    while (wait(NULL) > 0) {
    }
  }
  char line[200];
  int length = sprintf(line, "%d %lu %lu %lu\n", getpid(), ones - at_fork[0], twos - at_fork[1], comparisons - at_fork[2]);
  return write(1, line, length) == length ? 0 : 1;
}
