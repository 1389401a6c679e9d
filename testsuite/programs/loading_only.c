// A program that is not instrumented loads instrumented libraries, and so the runtime, and unloads them again.
//# PlainProgram
//# Loaded: parts/loaded_a.c parts/loaded_b.c
//# Chain constructor: a_leaf < a_constructor
//# Chain constructor: b_leaf < b_constructor
//# Chain constructor: a_leaf < a_constructor
//# Chain constructor: b_leaf < b_constructor
//# Chain destructor: a_leaf < a_destructor
//# Chain destructor: b_leaf < b_destructor
//# Chain destructor: a_leaf < a_destructor
//# Chain destructor: b_leaf < b_destructor
//# Chain first: a_leaf < a_middle < a_first < enter
//# Chain other: b_leaf < b_middle < b_second < enter
//# Chain again: a_leaf < a_middle < a_first < enter
//# Chain both: b_leaf < b_middle < b_second < enter
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

typedef void entry(const char *name, void (*callback)(const char *));

static void callback(const char *name) { printf("%s\n", name); }

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  static const char *const names[] = {"first", "other", "again", "both"};
  for (int i = 0; i < 4; i++) {
    void *library = dlopen(argv[1 + i % 2], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      puts(dlerror());
      return 1;
    }
    ((entry *)dlsym(library, "enter"))(names[i], callback);
    printf("%d\n", dlclose(library));
  }
  return 0;
}
