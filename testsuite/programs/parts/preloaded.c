#define _GNU_SOURCE
#include "../show.h"
#include "interposed.h"
#include <dlfcn.h>

NOINLINE static void record(const char *name) { SHOW(name); KEEP; }

NOINLINE void work(const char *name) {
  void (*next)(const char *) = (void (*)(const char *))dlsym(RTLD_NEXT, "work");
  next(name);
  KEEP;
}

// Callers do not push for it.
long labs(long n) {
  const char *name = preload_name;
  preload_name = 0;
  if (name) record(name);
  return n < 0 ? -n : n;
}
