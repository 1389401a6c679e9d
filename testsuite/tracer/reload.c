/* usage: reload LIBRARY… enters `entered` of each, one at a time, and prints where they were. */
#include "emitted.h"
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
  for (int i = 1; i < count; i++) {
    void *library = dlopen(arguments[i], RTLD_NOW);
    void (*entered)(void) = library ? (void (*)(void))dlsym(library, "entered") : NULL;
    if (!entered)
      return fprintf(stderr, "%s\n", dlerror()), 1;
    /* The second time, the tracer knows it. */
    for (int k = 0; k < 100; k++)
      entered();
    printf("%p\n", (void *)entered);
    dlclose(library);
  }
  __pcce_trace_mark(0);
  return 0;
}
