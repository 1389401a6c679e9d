// New programs and processes: exec, posix_spawn, system, daemon; a child of fork goes on, is nested, and comes from a
// thread.
//# Chain exec: leaf < child_main < main
//# Chain spawned: leaf < child_main < main
//# Chain shell: leaf < child_main < main
//# Chain fork: leaf < forks < recursive < recursive < main
//# Chain fork-nested: leaf < forks < forks < recursive < recursive < main
//# Chain fork-deeper: leaf < recursive < forks < recursive < recursive < main
//# Chain vfork-parent: leaf < vforks < main
//# Chain thread: leaf < in_thread < thread
//# Chain thread-parent: leaf < in_thread < thread
//# Chain at-fork: prepare < <fork> < in_thread < thread
//# Chain at-fork-child: child < <fork> < in_thread < thread
//# Chain daemon: leaf < daemonize < main
//# Chain after: leaf < main
#define _GNU_SOURCE
#include "show.h"
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

NOINLINE static int child_main(const char *name) {
  leaf(name);
  KEEP;
  return 20;
}

NOINLINE static int wait_for(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

NOINLINE static int recursive(int n);
static int level;
NOINLINE static int forks(int n) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    level++;
    leaf(level == 1 ? "fork" : "fork-nested");
    if (level == 1) {
      recursive(-1);
      n += forks(n);
    }
    _exit(n);
  }
  return wait_for(pid) + 1;
}

NOINLINE static int recursive(int n) {
  if (n < 0) {
    leaf("fork-deeper");
    return 0;
  }
  int result = n > 0 ? recursive(n - 1) : forks(3);
  KEEP;
  return result;
}

NOINLINE static int vforks(const char *self) {
  pid_t pid = vfork();
  if (pid == 0) {
    execl(self, self, "exec", (char *)NULL);
    _exit(99);
  }
  leaf("vfork-parent");
  return wait_for(pid);
}

static int quiet;
static void prepare(void) { if (!quiet) SHOW("at-fork"); }
static void child(void) { if (!quiet) SHOW("at-fork-child"); }

NOINLINE static int in_thread(void) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    leaf("thread");
    _exit(6);
  }
  leaf("thread-parent");
  return wait_for(pid);
}

static void *thread(void *argument) {
  int *result = argument;
  *result = in_thread();
  KEEP;
  return argument;
}

NOINLINE static int daemonize(void) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    if (daemon(1, 1) != 0) _exit(1);
    leaf("daemon");
    exit(0);
  }
  return wait_for(pid);
}

int main(int argc, char **argv) {
  char self[4096] = {0};
  if (argc > 1) return child_main(argv[1]);
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
  printf("%d\n", vforks(self));
  pid_t pid = 0;
  char *arguments[] = {self, (char *)"spawned", NULL};
  if (posix_spawn(&pid, self, NULL, NULL, arguments, environ) != 0) return 2;
  printf("%d\n", wait_for(pid));
  char line[sizeof self + 10];
  snprintf(line, sizeof line, "'%s' shell", self);
  printf("%d\n", WEXITSTATUS(system(line)));
  printf("%d\n", recursive(1));
  pthread_atfork(prepare, NULL, child);
  pthread_t id;
  int result = 0;
  if (pthread_create(&id, NULL, thread, &result) != 0) return 3;
  pthread_join(id, NULL);
  printf("%d\n", result);
  quiet = 1;
  printf("%d\n", daemonize());
  leaf("after");
  return 0;
}
