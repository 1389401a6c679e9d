#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that gets no memory of its own for its trace. */
__attribute__((noinline)) static void in_child(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) static void in_parent(void) { __asm__ volatile("" ::: "memory"); }

int main(void) {
  struct rlimit none = {1, 1};
  setrlimit(RLIMIT_AS, &none);
  pid_t child = fork();
  if (child == 0) {
    in_child();
    _exit(7);
  }
  int status;
  waitpid(child, &status, 0);
  in_parent();
  printf("%d\n", WEXITSTATUS(status));
  return 0;
}
