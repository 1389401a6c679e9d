// Libraries loaded while the program runs: twice at one address, one where another one was, and one at another
// address than before. Numbers and tokens stay those of their contexts.
//# Loaded: parts/loaded_a.c parts/loaded_b.c
//# Chain constructor: a_leaf < a_constructor < <dlopen> < load < step < main
//# Chain constructor: a_leaf < a_constructor < <dlopen> < load < step < main
//# Chain constructor: b_leaf < b_constructor < <dlopen> < load < step < main
//# Chain constructor: a_leaf < a_constructor < <dlopen> < load < step < main
//# Chain constructor: b_leaf < b_constructor < <dlopen> < load < step < main
//# Chain destructor: a_leaf < a_destructor < <dlclose> < unload < main
//# Chain destructor: a_leaf < a_destructor < <dlclose> < unload < main
//# Chain destructor: b_leaf < b_destructor < <dlclose> < unload < main
//# Chain destructor: a_leaf < a_destructor
//# Chain destructor: b_leaf < b_destructor
//# Chain first: a_leaf < a_middle < a_first < enter < use < step < main
//# Chain first: callback < a_middle < a_first < enter < use < step < main
//# Chain again: a_leaf < a_middle < a_first < enter < use < step < main
//# Chain again: callback < a_middle < a_first < enter < use < step < main
//# Chain other: b_leaf < b_middle < b_second < enter < use < step < main
//# Chain other: callback < b_middle < b_second < enter < use < step < main
//# Chain moved: a_leaf < a_middle < a_first < enter < use < step < main
//# Chain moved: callback < a_middle < a_first < enter < use < step < main
//# Chain both: b_leaf < b_middle < b_second < enter < use < step < main
//# Chain both: callback < b_middle < b_second < enter < use < step < main
//# Chain after: main
//# Fixed after
#define _GNU_SOURCE
#include "show.h"
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef void entry(const char *name, void (*callback)(const char *));

// The address of the library in memory.
static char *address(void *library) {
  struct link_map *map;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? (char *)map->l_addr : NULL;
}

NOINLINE static void *load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    puts(dlerror());
    exit(1);
  }
  return library;
}

NOINLINE static void unload(void *library) {
  printf("%d\n", dlclose(library));
  KEEP;
}

static void callback(const char *name) { SHOW(name); KEEP; }

NOINLINE static void use(void *library, const char *name) {
  entry *enter = (entry *)dlsym(library, "enter");
  enter(name, callback);
  KEEP;
}

NOINLINE static void *step(const char *path, const char *name) {
  void *library = load(path);
  use(library, name);
  return library;
}

static int wrong(const char *what) {
  puts(what);
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 3) return wrong("two libraries are needed");
  static const char *const names[] = {"first", "again", "other", "moved", "both"};
  char *places[5];
  void *libraries[5];
  // All from one call site: contexts of two libraries at one place differ in nothing but the library.
  volatile int count = 5; // the loop is not unrolled
  for (int i = 0; i < count; i++) {
    libraries[i] = step(argv[1 + (i == 2 || i == 4)], names[i]);
    places[i] = address(libraries[i]);
    if (i == 2) {
      unload(libraries[2]);
      if (mmap(places[2], 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != places[2])
        return wrong("the place is not free");
    } else if (i < 2) {
      unload(libraries[i]);
    }
  }
  if (places[1] != places[0] || places[2] != places[0]) return wrong("not at the same place");
  if (places[3] == places[0]) return wrong("not at another place");
  SHOW("after");
  return 0;
}
