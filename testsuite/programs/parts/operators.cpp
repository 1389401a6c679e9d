#include "../show.h"
#include <cstdlib>
#include <new>

const char *volatile operator_name;

NOINLINE static void record(const char *name) { SHOW(name); KEEP; }

void *operator new(size_t size) {
  const char *name = operator_name;
  operator_name = 0;
  if (name) SHOW(name);
  void *p = malloc(size);
  if (!p) throw std::bad_alloc();
  return p;
}

void operator delete(void *p) noexcept {
  const char *name = operator_name;
  operator_name = 0;
  if (name) record(name);
  free(p);
}
void operator delete(void *p, size_t) noexcept { operator delete(p); }
