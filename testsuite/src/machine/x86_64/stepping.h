// Single stepping by the trap flag, and the registers of an interrupted point (a `ucontext_t`).
#ifndef STEPPING_H
#define STEPPING_H
#include <ucontext.h>

#define REGISTERS(context) (((ucontext_t *)(context))->uc_mcontext.gregs)
#define INSTRUCTION(context) ((void *)REGISTERS(context)[REG_RIP])
#define STACK_POINTER(context) ((void *)REGISTERS(context)[REG_RSP])

#define STEP_FLAGS 0

// The kernel sends SIGTRAP after each instruction between the two. The red zone below the stack pointer is left alone.
#define STEP(change) \
  __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; " change ", (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc")
#define STEP_ON STEP("orq $0x100")
#define STEP_OFF STEP("andq $~0x100")
// The same as STEP_OFF, in the handler of the signal.
#define STOP_STEPPING(context) (REGISTERS(context)[REG_EFL] &= ~0x100)
#endif
