// The registers of an interrupted point (a `ucontext_t`), and the places between which the program is stepped through
// from outside: by the emulator's interface for debuggers, which sends SIGTRAP after each instruction.
#ifndef STEPPING_H
#define STEPPING_H
#include <ucontext.h>

#define INSTRUCTION(context) ((void *)((ucontext_t *)(context))->uc_mcontext.pc)
#define STACK_POINTER(context) ((void *)((ucontext_t *)(context))->uc_mcontext.sp)

// Breakpoints in the handler are signals, too: where they are blocked, the emulator forgets the handler.
#define STEP_FLAGS SA_NODEFER

#define STEP_ON __asm__ volatile(".globl step_on\nstep_on: nop" ::: "memory")
#define STEP_OFF __asm__ volatile(".globl step_off\nstep_off: nop" ::: "memory")
// The stepping ends elsewhere.
#define STOP_STEPPING(context) ((void)(context))
#endif
