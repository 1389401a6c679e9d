// Starts a program that may not make its code writable (PR_SET_MDWE). Status 77 where the kernel has no such thing.
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc < 2 || prctl(65, 1, 0, 0, 0))
    return 77;
  execv(argv[1], argv + 1);
  perror(argv[1]);
  return 1;
}
