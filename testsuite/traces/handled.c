// Handlers in a process and in its forked child; the argument: how many in front of the fork.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define NEW __attribute__((noinline)) static
static volatile int seen;
NEW int leaf(int n) { return seen = n; }
NEW int work(int n) { return n & 1 ? leaf(n) + 1 : leaf(n + 1) + leaf(n); }
static void handler(int signal) { leaf(work(signal)); }
int main(int argc, char **argv) {
  int before = argc > 1 ? atoi(argv[1]) : 0;
  signal(SIGUSR1, handler);
  for (int i = 0; i < before; i++) raise(SIGUSR1);
  if (fork() == 0) {
    for (int i = 0; i < 20; i++) work(i), raise(SIGUSR1);
    exit(0);
  }
  wait(NULL);
  raise(SIGUSR1);
}
