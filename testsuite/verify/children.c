// Starts itself with an empty environment.
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  middle(1);
  if (argc > 1) return 0;
  fflush(stdout);
  char *arguments[] = {argv[0], "child", 0}, *none[] = {0};
  if (vfork() == 0) { execve(argv[0], arguments, none); _exit(1); }
  int status;
  wait(&status);
  return WEXITSTATUS(status);
}
