/* Put in front of every source of a program (-include): each of its allocations is an event in a log, the file that
 * ALLOCATIONS names. With LOG_NUMBERS an event is the 8 bytes of pcce_context(), with LOG_TOKENS a line with the token,
 * with LOG_PAIRS a line with both, else nothing is written. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* as programs define it in front of their own includes */
#endif
#include <pcce.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H
extern FILE *allocations_log(void);

__attribute__((always_inline)) static inline void log_allocation(void) {
#if defined LOG_NUMBERS
  unsigned long long number = pcce_context();
  fwrite_unlocked(&number, sizeof number, 1, allocations_log());
#elif defined LOG_TOKENS
  char token[8192];
  size_t length = pcce_token(token, sizeof token - 1);
  token[length] = '\n';
  fwrite_unlocked(token, length + 1, 1, allocations_log());
#elif defined LOG_PAIRS
  char line[8192];
  size_t length = (size_t)sprintf(line, "%llu ", (unsigned long long)pcce_context());
  length += pcce_token(line + length, sizeof line - 64);
  line[length] = '\n';
  fwrite_unlocked(line, length + 1, 1, allocations_log());
#endif
}
__attribute__((always_inline)) static inline void *logged_malloc(size_t size) {
  log_allocation();
  return malloc(size);
}
__attribute__((always_inline)) static inline void *logged_calloc(size_t count, size_t size) {
  log_allocation();
  return calloc(count, size);
}
__attribute__((always_inline)) static inline void *logged_realloc(void *old, size_t size) {
  if (size) log_allocation();
  return realloc(old, size);
}
#define malloc(size) logged_malloc(size)
#define calloc(count, size) logged_calloc(count, size)
#define realloc(old, size) logged_realloc(old, size)
#endif
