#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "library.h"

// One thread's worth of work by the library that is linked, or by copies that are loaded.
int main(int count, char **words) {
  if (count == 1) {
    printf("%d %d\n", work(1), leaf(5));
    return 0;
  }
  int flags = RTLD_NOW;
  if (strstr(words[1], "deep")) flags |= RTLD_DEEPBIND;
  if (strstr(words[1], "lazy")) flags = RTLD_LAZY;
  for (int i = 2; i < count; i++) {
    void *library = strstr(words[1], "namespace") ? dlmopen(LM_ID_NEWLM, words[i], flags) : dlopen(words[i], flags);
    if (!library) { puts(dlerror()); return 1; }
    fflush(stdout);
    printf("%d\n", ((int (*)(int))dlsym(library, "work"))(i));
    if (strstr(words[1], "close")) dlclose(library);
  }
  return 0;
}
