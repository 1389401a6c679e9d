// A function that keeps nearly all registers, of the fewest bytes, dies in a call of the C library.
#include <signal.h>
#include <stdio.h>

__attribute__((noinline, preserve_all, minsize)) static void die(int n) {
  raise(SIGABRT);
  printf("%d\n", n);
}

__attribute__((noinline, minsize)) static void deeper(int n) {
  die(n);
  printf("%d\n", n);
}

int main(int argc, char **argv) {
  (void)argv;
  deeper(argc);
  return 0;
}
