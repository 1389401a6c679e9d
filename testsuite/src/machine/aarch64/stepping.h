// The registers of an interrupted point (a `ucontext_t`), and the places between which the program is stepped through
// from outside: by the emulator's interface for debuggers, which sends SIGTRAP after each instruction.
#ifndef STEPPING_H
#define STEPPING_H
#include <ucontext.h>

#define INSTRUCTION(context) ((void *)((ucontext_t *)(context))->uc_mcontext.pc)
#define STACK_POINTER(context) ((void *)((ucontext_t *)(context))->uc_mcontext.sp)

// Breakpoints in the handler are signals, too: where they are blocked, the emulator forgets the handler.
#define STEP_FLAGS SA_NODEFER

// Functions, since a label would give its name to the rest of the function that it is in.
__attribute__((noinline, used)) static void step_on(void) __asm__("step_on");
static void step_on(void) { __asm__ volatile("nop" ::: "memory"); }
__attribute__((noinline, used)) static void step_off(void) __asm__("step_off");
static void step_off(void) { __asm__ volatile("nop" ::: "memory"); }
// Behind the handler's own calls, which may come through the interrupted code.
__attribute__((noinline, used)) static void step_handled(void) __asm__("step_handled");
static void step_handled(void) { __asm__ volatile("nop" ::: "memory"); }
#define STEP_ON step_on()
#define STEP_OFF step_off()
#define STEP_HANDLED step_handled()
// The stepping ends elsewhere.
#define STOP_STEPPING(context) ((void)(context))
#endif
