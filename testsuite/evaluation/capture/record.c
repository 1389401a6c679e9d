/* The hash table of captured contexts, and the walks by libraries. Compiled to machine code by itself, without the
 * pass: it is no part of the program that is measured. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "capture.h"

enum { SLOTS = 1 << 18 };
static struct { uint64_t context, count; } table[SLOTS];
static uint64_t captures, distinct, lost;

uintptr_t capture_stack_end;
/* Entries from one capture to the next, and entries until then; see entry.h. */
uint64_t capture_period, capture_countdown;

void capture_record(uint64_t context) {
    captures++;
    for (uint64_t i = capture_mix(0, context); ; i++) {
        uint64_t slot = i % SLOTS;
        if (table[slot].context == context && table[slot].count) {
            table[slot].count++;
            return;
        }
        if (!table[slot].count) {
            if (distinct > SLOTS / 2) {
                lost++;
                return;
            }
            distinct++;
            table[slot].context = context;
            table[slot].count = 1;
            return;
        }
    }
}

static uint64_t hash_of(void **addresses, int n) {
    uint64_t hash = 0;
    for (int i = 0; i < n; i++) {
        hash = capture_mix(hash, (uintptr_t)addresses[i]);
    }
    return hash;
}

uint64_t capture_unwind(void) {
    void *addresses[CAPTURE_DEPTH];
    return hash_of(addresses, unw_backtrace(addresses, CAPTURE_DEPTH));
}

/* libunwind has a function of this name, too. */
static int (*glibc_backtrace)(void **, int);

uint64_t capture_backtrace(void) {
    void *addresses[CAPTURE_DEPTH];
    return hash_of(addresses, glibc_backtrace(addresses, CAPTURE_DEPTH));
}

/* What was captured, for the file that CAPTURE_REPORT names. */
static void report(void) {
    const char *path = getenv("CAPTURE_REPORT");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%llu %llu %llu\n", (unsigned long long)captures, (unsigned long long)distinct,
                (unsigned long long)lost);
        fclose(file);
    }
}

__attribute__((constructor)) static void start(void) {
    const char *period = getenv("CAPTURE_PERIOD");
    /* Without it: never. */
    capture_period = period ? strtoull(period, NULL, 10) : UINT64_MAX;
    capture_countdown = capture_period;
    /* The main thread's stack ends below its environment strings, near the address of any of them. */
    extern char **environ;
    capture_stack_end = (uintptr_t)(environ ? environ[0] ? environ[0] : (char *)environ : 0);
    atexit(report);
    void *glibc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&glibc_backtrace = dlsym(glibc, "backtrace");
}
