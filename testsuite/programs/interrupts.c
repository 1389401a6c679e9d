// Handlers that the machine calls where it interrupts a program, with whatever state it finds there.
//# Chain inner: inner < handler < <unknown>
//# Chain behind: caller < main
//# Chain behind: caller < middle < main
#include "show.h"

struct interrupted { unsigned long rip, cs, flags, rsp, ss; };

NOINLINE static void inner(unsigned long n) { if (n) SHOW("inner"); KEEP; }

// Nothing may be clobbered but general registers, or clang says so.
#pragma clang diagnostic ignored "-Wexcessive-regsave"
__attribute__((interrupt)) void handler(struct interrupted *at) { inner(at->cs); KEEP; }

NOINLINE static void caller(void (*entry)(struct interrupted *)) {
  // As the machine does: a frame with the point where it goes on. The handler is entered by no call that can be seen.
  __asm__ volatile("movq %%rsp, %%rax\n subq $256, %%rsp\n andq $-16, %%rsp\n"
                   "movq %%ss, %%rcx\n movq %%cs, %%rdx\n"
                   "pushq %%rcx\n pushq %%rax\n pushfq\n pushq %%rdx\n leaq 1f(%%rip), %%rsi\n pushq %%rsi\n"
                   "movq %%rsp, %%rdi\n"
                   "pushq %%rcx\n pushq %%rdi\n pushfq\n pushq %%rdx\n pushq %0\n iretq\n1:"
                   : : "r"(entry) : "rax", "rcx", "rdx", "rsi", "rdi", "memory", "cc");
  SHOW("behind");
  KEEP;
}

NOINLINE static void middle(void (*entry)(struct interrupted *)) { caller(entry); KEEP; }

int main(void) {
  caller(handler); KEEP;
  middle(handler); KEEP;
  printf("done\n");
  return 0;
}
