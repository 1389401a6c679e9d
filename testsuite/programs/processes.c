// vfork returns twice in one memory; fork's child goes on with the state of its parent.
//# Chain child: child < spawn < main
//# Chain parent: spawn < main
//# Chain fork-child: leaf < forker < main
//# Chain fork-parent: leaf < forker < main
//# Chain after: main
//# Fixed after
#include "show.h"
#include <sys/wait.h>

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

NOINLINE static void child(int status) {
  SHOW("child");
  _exit(status);
}

NOINLINE static int spawn(int status) {
  pid_t pid = vfork();
  if (pid == 0) child(status);
  SHOW("parent");
  int result = 0;
  if (waitpid(pid, &result, 0) != pid) return -1;
  return WEXITSTATUS(result);
}

NOINLINE static int forker(int status) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    leaf("fork-child");
    _exit(status);
  }
  int result = 0;
  if (waitpid(pid, &result, 0) != pid) return -1;
  leaf("fork-parent");
  return WEXITSTATUS(result);
}

int main(void) {
  printf("%d\n", spawn(5));
  printf("%d\n", forker(6));
  SHOW("after");
  return 0;
}
