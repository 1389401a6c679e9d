/* Captures a context at every allocation: included first into every source of the program. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* as programs define it in front of their own includes */
#endif
#include <stdlib.h>
#include <string.h>

#include "capture.h"

#ifndef CAPTURE_ALLOCATION_H
#define CAPTURE_ALLOCATION_H
__attribute__((always_inline)) static inline void *capture_malloc(size_t size) {
    capture_record(capture_context());
    return malloc(size);
}
__attribute__((always_inline)) static inline void *capture_calloc(size_t n, size_t size) {
    capture_record(capture_context());
    return calloc(n, size);
}
__attribute__((always_inline)) static inline void *capture_realloc(void *old, size_t size) {
    /* Lua's only allocation function: to size 0 it frees. */
    if (size) {
        capture_record(capture_context());
    }
    return realloc(old, size);
}
#define malloc(size) capture_malloc(size)
#define calloc(n, size) capture_calloc(n, size)
#define realloc(old, size) capture_realloc(old, size)
#endif
