/* Works in one function until a file `second` is there, then in others, one of a library, until there is one `end`. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static void spin(void) {
  for (volatile int i = 0; i < 1000000; i++) continue;
}
__attribute__((noinline)) static void first(void) {
  spin();
  __asm__("");
}
__attribute__((noinline)) static void second(void) {
  spin();
  __asm__("");
}
int main(void) {
  while (access("second", F_OK) != 0) first();
  void *library = dlopen("./plugin.so", RTLD_NOW);
  void (*work)(void) = library ? (void (*)(void))dlsym(library, "work") : NULL;
  if (!work) return 1;
  while (access("end", F_OK) != 0) {
    second();
    work();
  }
  puts("end");
  return 0;
}
