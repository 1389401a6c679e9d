/* Put in front of every source of a program (-include): its allocations write their context.
 * The contexts go to the file named by ALLOCATIONS, one line each: bytes and token. */
#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <pcce.h>
#include <stdio.h>
#include <stdlib.h>

static inline void log_allocation(size_t bytes) {
  static FILE *log;
  char token[1024];
  if (!log) {
    const char *name = getenv("ALLOCATIONS");
    log = name ? fopen(name, "a") : NULL;
  }
  if (log) {
    pcce_token(token, sizeof token);
    fprintf(log, "%zu %s\n", bytes, token);
  }
}

static inline void *logged_malloc(size_t bytes) {
  log_allocation(bytes);
  return malloc(bytes);
}

static inline void *logged_realloc(void *old, size_t bytes) {
  log_allocation(bytes);
  return realloc(old, bytes);
}

#define malloc logged_malloc
#define realloc logged_realloc

#endif
