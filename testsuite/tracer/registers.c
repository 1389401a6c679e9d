/* Calls the tracer with all registers full, and looks that they are kept. Prints how often, and with which ones. */
#include "emitted.h"
#include <stdio.h>
#include <string.h>

ENTERED(first);
ENTERED(second);

struct registers {
  uint64_t general[16];
  uint64_t masks[8];
  unsigned char vectors[32][64] __attribute__((aligned(64)));
};

/* Fills the registers from `from`, calls, and writes them to `to`; all but rsp, and rbx where `to` is. */
#define PROBE(name, load, store)                                                                             \
  void name(const struct registers *from, struct registers *to, void (*function)(void));                     \
  __asm__(".text\n.p2align 4\n" #name ":\n"                                                                  \
          "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\npush %rsi\npush %rdx\npush %rdi\n" \
          load "mov (%rsp), %rax\n"                                                                          \
          "mov 8(%rax), %rcx\nmov 16(%rax), %rdx\nmov 24(%rax), %rbx\nmov 40(%rax), %rbp\nmov 48(%rax), %rsi\n"   \
          "mov 56(%rax), %rdi\nmov 64(%rax), %r8\nmov 72(%rax), %r9\nmov 80(%rax), %r10\nmov 96(%rax), %r12\n"    \
          "mov 104(%rax), %r13\nmov 112(%rax), %r14\nmov 120(%rax), %r15\nmov (%rax), %rax\n"                \
          "call *8(%rsp)\n"                                                                                  \
          "mov 16(%rsp), %r11\nmov %rax, (%r11)\nmov %rcx, 8(%r11)\nmov %rdx, 16(%r11)\nmov %rbx, 24(%r11)\n"     \
          "mov %rbp, 40(%r11)\nmov %rsi, 48(%r11)\nmov %rdi, 56(%r11)\nmov %r8, 64(%r11)\nmov %r9, 72(%r11)\n"    \
          "mov %r10, 80(%r11)\nmov %r12, 96(%r11)\nmov %r13, 104(%r11)\nmov %r14, 112(%r11)\n"               \
          "mov %r15, 120(%r11)\nmov 16(%rsp), %rdi\n" store                                                  \
          "add $24, %rsp\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n")

#define EACH_16(line, more)                                                                                  \
  ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15" more "\n" line "\n.endr\n"
#define HIGH ",16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"

PROBE(general, "", "");
PROBE(sse, EACH_16("movups 192+64*\\n(%rdi), %xmm\\n", ""), EACH_16("movups %xmm\\n, 192+64*\\n(%rdi)", ""));
PROBE(avx, EACH_16("vmovups 192+64*\\n(%rdi), %ymm\\n", ""), EACH_16("vmovups %ymm\\n, 192+64*\\n(%rdi)", ""));
PROBE(avx512,
      EACH_16("vmovups 192+64*\\n(%rdi), %zmm\\n", HIGH) ".irp n,0,1,2,3,4,5,6,7\nkmovq 128+8*\\n(%rdi), %k\\n\n.endr\n",
      EACH_16("vmovups %zmm\\n, 192+64*\\n(%rdi)", HIGH) ".irp n,0,1,2,3,4,5,6,7\nkmovq %k\\n, 128+8*\\n(%rdi)\n.endr\n");

static uint64_t state = 1, calls;

static void check(const char *what, void (*probe)(const struct registers *, struct registers *, void (*)(void)),
                  void (*function)(void), int vectors, int bytes, int masks) {
  static struct registers from, to;
  unsigned char *all = (unsigned char *)&from;
  for (unsigned i = 0; i < sizeof from; i++)
    all[i] = (state = state * 6364136223846793005 + 1442695040888963407) >> 56;
  memcpy(&to, &from, sizeof from);
  memset(to.vectors, 0, sizeof to.vectors);
  probe(&from, &to, function);
  calls++;
  if (memcmp(from.general, to.general, sizeof from.general))
    printf("%s: general registers\n", what);
  for (int i = 0; i < vectors; i++)
    if (memcmp(from.vectors[i], to.vectors[i], bytes))
      printf("%s: vector register %d\n", what, i);
  if (masks && memcmp(from.masks, to.masks, sizeof from.masks))
    printf("%s: masks\n", what);
}

int main(void) {
  const char *best = "sse";
  /* The first call of a thread, misses, hits, full words, and several chunks. */
  for (int i = 0; i < 400000; i++) {
    void (*function)(void) = i % 5 ? first : second;
    if (i % 7 == 0)
      __pcce_trace.cache[(((uintptr_t)first + 5) >> 4) % 256] = 0;
    check("enter", general, function, 0, 0, 0);
    check("enter", sse, function, 16, 16, 0);
    void (*flush)(void) = (void (*)(void))__pcce_trace_flush;
    check("flush", general, flush, 0, 0, 0);
    check("flush", sse, flush, 16, 16, 0);
    check("event", sse, (void (*)(void))__pcce_trace_event, 16, 16, 0);
    if (__builtin_cpu_supports("avx")) {
      check("enter, avx", avx, function, 16, 32, 0);
      check("flush, avx", avx, flush, 16, 32, 0);
      best = "avx";
    }
    if (__builtin_cpu_supports("avx512bw")) {
      check("enter, avx512", avx512, function, 32, 64, 1);
      check("flush, avx512", avx512, flush, 32, 64, 1);
      best = "avx512";
    }
    if (i < 100 && __pcce_trace.pending >> 53)
      printf("a full word\n");
  }
  printf("%lu calls, %s\n", (unsigned long)calls, best);
  return 0;
}
