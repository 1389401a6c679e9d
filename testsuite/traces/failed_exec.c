#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static void one(void) { __asm__ volatile(""); }
int main(int count, char **words) { (void)count; one(); execl("/nothing", "", (char *)0); one();
  if (*words[1] == 'k') kill(getpid(), SIGKILL);
  return 0; }
