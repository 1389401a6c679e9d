/* Captures of calling contexts, for comparing ways to take them. Included first into every source of a program:
 *
 *   CAPTURE_PCCE       pcce_context()
 *   CAPTURE_FRAMES     a walk along the frame pointers, hashed; the program keeps frame pointers
 *   CAPTURE_UNWIND     libunwind's unw_backtrace(), hashed
 *   CAPTURE_BACKTRACE  glibc's backtrace(), hashed
 *   CAPTURE_NOTHING    0, for the cost of everything else
 *
 * All of them record into one kind of hash table (record.c). The walks stop after CAPTURE_DEPTH frames; pcce_context()
 * names the whole context.
 */
#ifndef CAPTURE_H
#define CAPTURE_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CAPTURE_DEPTH = 1024 };

void capture_record(uint64_t context);
uint64_t capture_unwind(void);
uint64_t capture_backtrace(void);
extern uintptr_t capture_stack_end;
uint64_t pcce_context(void);

static inline uint64_t capture_mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
}

/* In the function that captures, so that pcce_context() is that function's. */
__attribute__((always_inline)) static inline uint64_t capture_context(void) {
#if defined CAPTURE_PCCE
    return pcce_context();
#elif defined CAPTURE_FRAMES
    /* Code without frame pointers uses the register for anything: only what can be a frame is followed. */
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0), here;
    __asm__("lea 0(%%rip), %0" : "=r"(here));
    uint64_t hash = capture_mix(here, (uintptr_t)__builtin_return_address(0));
    for (int i = 1; i < CAPTURE_DEPTH; i++) {
        uintptr_t next = *(uintptr_t *)frame;
        if (next <= frame || next > capture_stack_end - 16 || next % 8 != 0) {
            break;
        }
        frame = next;
        hash = capture_mix(hash, *(uintptr_t *)(frame + 8));
    }
    return hash;
#elif defined CAPTURE_UNWIND
    return capture_unwind();
#elif defined CAPTURE_BACKTRACE
    return capture_backtrace();
#else
    return 0;
#endif
}

#ifdef __cplusplus
}
#endif
#endif
