// Inline assembly that calls a function: a push, as for any call through a pointer.
//# Chain asm: from_asm < caller < main
//# Chain deep: from_asm < caller < again < main
//# Chain red_zone: from_asm < unguarded < main
//# Chain after: main
//# Fixed after
#include "show.h"

static const char *name = "asm";
__attribute__((used, noinline)) static void from_asm(void) { SHOW(name); KEEP; }
static void (*const target)(void) = from_asm;

// Calls a function with a stack that is aligned, and all registers that a call may change.
#ifdef __aarch64__
#define CALL(room, f)                                                                                                 \
  __asm__ volatile("mov x19, sp\n\tblr %0\n\tmov sp, x19"                                                            \
                   :                                                                                                  \
                   : "r"(f)                                                                                           \
                   : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",   \
                     "x15", "x16", "x17", "x18", "x19", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", \
                     "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",       \
                     "v30", "v31", "memory", "cc")
#else
#define CALL(room, f)                                                                                                 \
  __asm__ volatile("movq %%rsp, %%rbx\n\t" room "andq $-64, %%rsp\n\t"                                                \
                   "callq *%0\n\t"                                                                                    \
                   "movq %%rbx, %%rsp"                                                                                \
                   :                                                                                                  \
                   : "r"(f)                                                                                           \
                   : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2",      \
                     "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",      \
                     "xmm14", "xmm15", "memory", "cc")
#endif

NOINLINE static int caller(int n) {
  void (*f)(void) = target;
  CALL("subq $256, %%rsp\n\t", f); // room for the red zone
  return n + 1;
}

NOINLINE static int again(int n) {
  name = "deep";
  n = caller(n) + 1;
  KEEP;
  return n;
}

// The call writes to the red zone: the function keeps nothing there.
NOINLINE static void unguarded(void) {
  void (*f)(void) = target;
  CALL("", f);
}

int main(void) {
  printf("%d\n", caller(1));
  printf("%d\n", again(2));
  name = "red_zone";
  unguarded();
  SHOW("after");
  return 0;
}
