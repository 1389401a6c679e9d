// Computes, and is then ended by a signal, in the way that the first argument names.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long sum;
static char *volatile kept;

__attribute__((noinline)) static void spin(long n) {
  for (long i = 0; i < n; i++)
    sum += i;
}

__attribute__((noinline)) static void serve(void) {
  kept = malloc(1234);
  spin(300000000);
  sum++;
}

static void cleans(int number) {
  (void)write(1, "cleans\n", 7);
  signal(number, SIG_DFL);
  raise(number);
}

static void *ends(void *number) {
  kill(getpid(), (int)(long)number);
  return NULL;
}

static int handled(int number) {
  struct sigaction action;
  return sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
}

int main(int count, char **arguments) {
  const char *how = count > 1 ? arguments[1] : "";
  serve();
  if (!strcmp(how, "sees")) {
    // Nothing of the runtime's handlers.
    int seen = handled(SIGTERM) + handled(SIGUSR1) + (signal(SIGTERM, SIG_IGN) != SIG_DFL);
    raise(SIGTERM);
    seen += (signal(SIGTERM, SIG_DFL) != SIG_IGN) + handled(SIGTERM);
    struct sigaction action = {.sa_handler = SIG_DFL}, old;
    sigaction(SIGTERM, &action, &old);
    seen += (old.sa_handler != SIG_DFL) + (old.sa_flags != 0) + handled(SIGTERM);
    printf("%d\n", seen);
    fflush(stdout);
    raise(SIGTERM);
  }
  if (!strcmp(how, "hup")) raise(SIGHUP);
  if (!strcmp(how, "pipe")) {
    int ends[2];
    if (pipe(ends) == 0 && close(ends[0]) == 0) (void)write(ends[1], "", 1);
  }
  if (!strcmp(how, "cleans")) {
    signal(SIGTERM, cleans);
    raise(SIGTERM);
  }
  if (!strcmp(how, "ignores")) {
    // A signal that was ignored when the program started does not end it.
    raise(SIGHUP);
    _exit(6);
  }
  if (!strcmp(how, "thread")) {
    pthread_t thread;
    pthread_create(&thread, NULL, ends, (void *)SIGINT);
    for (;;)
      pause();
  }
  if (!strcmp(how, "child")) {
    // A child is no profile's process, and what it starts has no handlers.
    int status = 0;
    if (fork() == 0) raise(SIGTERM);
    if (wait(&status) < 0 || WTERMSIG(status) != SIGTERM) return 1;
    status = system("kill -TERM $$");
    return status == SIGTERM ? 0 : 2;
  }
  if (!strcmp(how, "twice")) {
    // A profile on a signal, and another one, while the program goes on.
    raise(SIGUSR2);
    serve();
    raise(SIGUSR2);
    raise(SIGTERM);
  }
  if (!strcmp(how, "exit")) exit(5);
  return 0;
}
