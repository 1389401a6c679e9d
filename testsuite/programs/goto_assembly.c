// Assembly that hides its calls in a macro or a jump, `asm goto` with and without calls, and computed goto.
//# Chain macro: from_asm < through_macro < main
//# Chain jump: from_asm < through_jump < main
//# Chain goto: from_asm < branches < main
//# Chain goto-left: branches < main
//# Chain goto-stayed: branches < main
//# Chain leaf: leaf < branches < main
//# Chain quiet: leaf < quiet < main
//# Chain computed: leaf < interpret < main
//# Chain computed-pointer: leaf < interpret < main
//# Chain after: leaf < main
//# Fixed after
//# Levels: -O0 -O1 -O2 -O3 -Os
#include "show.h"

#define REGISTERS                                                                                                 \
  "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",     \
      "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc"
// Room for the red zone, and a stack that is aligned at the call.
#define ENTER "movq %%rsp, %%rbx\n\tsubq $256, %%rsp\n\tandq $-64, %%rsp\n\t"
#define LEAVE "movq %%rbx, %%rsp\n\t"

static const char *name;
static int result;
NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }
__attribute__((used, noinline)) static void from_asm(void) { SHOW(name); result++; KEEP; }
static void (*const volatile target)(void) = from_asm;

NOINLINE static void through_macro(void) {
  void (*f)(void) = target;
  __asm__ volatile(".macro CALL_IT where\n\tcallq *\\where\n\t.endm\n\t" ENTER "CALL_IT %0\n\t" LEAVE ".purgem CALL_IT"
                   :
                   : "r"(f)
                   : REGISTERS);
}

NOINLINE static void through_jump(void) {
  void (*f)(void) = target;
  __asm__ volatile(ENTER "leaq 1f(%%rip), %%rax\n\tpushq %%rax\n\tjmpq *%0\n1:\n\t" LEAVE : : "r"(f) : REGISTERS);
}

// Calls, and leaves by a label or not.
NOINLINE static int branches(int n) {
  void (*f)(void) = target;
  __asm__ goto(ENTER "callq *%0\n\t" LEAVE "testl $1, %1\n\tjnz %l[odd]"
               :
               : "r"(f), "m"(result)
               : REGISTERS
               : odd);
  SHOW("goto-stayed");
  leaf("leaf");
  return n;
odd:
  SHOW("goto-left");
  leaf("leaf");
  return -n;
}

// Calls nothing.
NOINLINE static int quiet(int n) {
  __asm__ goto("testl %0, %0\n\tjz %l[zero]\n\tjmp %l[more]" : : "r"(n) : "cc" : zero, more);
  return 5;
zero:
  leaf("quiet");
  return 0;
more:
  leaf("quiet");
  return 1;
}

NOINLINE static long interpret(const char *code) {
  static const void *const labels[] = {&&stop, &&show, &&add, &&call};
  void (*volatile f)(const char *) = leaf;
  long sum = 1;
#define NEXT goto *labels[*code++ - '0']
  NEXT;
show:
  leaf("computed");
  NEXT;
add:
  sum += sum;
  NEXT;
call:
  f("computed-pointer");
  NEXT;
stop:
  return sum;
}

int main(void) {
  name = "macro";
  through_macro();
  name = "jump";
  through_jump();
  name = "goto";
  printf("%d\n", branches(3));
  printf("%d\n", branches(4));
  printf("%d %d\n", quiet(0), quiet(1));
  printf("%ld\n", interpret("1232231220"));
  leaf("after");
  return 0;
}
