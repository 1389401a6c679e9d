#include "../show.h"

const char *volatile memory_name;

NOINLINE static void inner(const char *name) { SHOW(name); KEEP; }

// Volatile, so that these do not become calls of themselves.
void *memcpy(void *to, const void *from, size_t size) {
  const char *name = memory_name;
  memory_name = 0;
  if (name) inner(name);
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const volatile char *)from)[i];
  return to;
}

void *memset(void *to, int byte, size_t size) {
  const char *name = memory_name;
  memory_name = 0;
  if (name) SHOW(name);
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = (char)byte;
  return to;
}
