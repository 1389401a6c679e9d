/* The code that the pass emits for the tracer, by hand: see `pcce_abi::trace`. */
#include <stdint.h>

struct block {
  uint64_t pending;
  uint64_t *next, *end;
  uintptr_t *cache;
  uint64_t events, hash, jumps;
  void *stream;
};
extern __thread struct block __pcce_trace __attribute__((tls_model("initial-exec")));

void __pcce_trace_landed(const void *function, uint32_t node);
void __pcce_trace_returned(uint64_t *number, const void *function, uint32_t node);
void __pcce_trace_sync(void);
void __pcce_trace_switch(uint64_t *, const void *, unsigned);
void __pcce_trace_save(uint64_t *, const void *, unsigned);
void __pcce_trace_back(const uint64_t *, const void *, unsigned);
void __pcce_trace_record(_Bool on);
void __pcce_trace_mark(uint64_t value);
__attribute__((preserve_most)) void __pcce_trace_flush(void);
__attribute__((preserve_most)) void __pcce_trace_event(uint64_t event);

/* Appends at most 9 bits. */
static inline void append(unsigned bits, uint64_t code) {
  if (__pcce_trace.pending >> 53)
    __pcce_trace_flush();
  __pcce_trace.pending = __pcce_trace.pending << bits | code;
}

/* A function that may be entered from outside. */
#define ENTERED(name)                                                                                        \
  void name(void);                                                                                           \
  __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ",@function\n" #name                           \
          ":\n.cfi_startproc\ncall __pcce_trace_enter\nret\n.cfi_endproc\n.size " #name ", . - " #name "\n")
