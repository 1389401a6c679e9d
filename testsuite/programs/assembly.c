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
#define CALL(room, f)                                                                                                 \
  __asm__ volatile("movq %%rsp, %%rbx\n\t" room "andq $-64, %%rsp\n\t"                                                \
                   "callq *%0\n\t"                                                                                    \
                   "movq %%rbx, %%rsp"                                                                                \
                   :                                                                                                  \
                   : "r"(f)                                                                                           \
                   : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2",      \
                     "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",      \
                     "xmm14", "xmm15", "memory", "cc")

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
