// Interrupts the program after each instruction, and prints for each point the token and what the C library's own
// unwinder says. A line for each: the token, whether it is in the unwinder, the program counter, and the return
// addresses, in hexadecimal digits, without the load bias.
#ifndef STEP_H
#define STEP_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <execinfo.h>
#include <pcce.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/machine/stepping.h"

#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")

enum { STEPS = 60000, ROOM = 1 << 26 };
static char *step_text;
static size_t step_length;
static int step_count, step_every = 1;
extern char __executable_start;
extern char __ehdr_start;

// The C library's unwinder faults while it follows a frame that a function of its own has half overwritten.
static sigjmp_buf step_lost;
static void step_fault(int signal) { siglongjmp(step_lost, signal); }

static void step_trap(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  if (++step_count % step_every != 0) return;
  if (step_count / step_every > STEPS || step_length + 8192 > ROOM) {
    STOP_STEPPING(context);
    return;
  }
  void *addresses[128];
  volatile int found = 1;
  if (sigsetjmp(step_lost, 1) == 0) found = backtrace(addresses, 128); else addresses[0] = INSTRUCTION(context);
  int n = found, i = 0;
  // This function's own calls may have gone through the routine that is interrupted.
  while (n > 1 && i < n && addresses[i] != __builtin_return_address(0)) i++;
  while (i < n && addresses[i] != INSTRUCTION(context)) i++;
  char token[2048];
  size_t length = pcce_token_at(token, sizeof token, INSTRUCTION(context), STACK_POINTER(context));
  if (length == 0 || length >= sizeof token) abort();
  char *at = step_text + step_length;
  at += sprintf(at, "%s", token);
  // These functions of the unwinder change their own frames, and leave them in a way that no tables describe.
  int unwinder = n == 1;
  for (int k = i; k < n && k < i + 4; k++) {
    Dl_info function;
    if (dladdr(addresses[k], &function) && function.dli_sname) unwinder |= !strncmp(function.dli_sname, "_Unwind_R", 9);
  }
  at += sprintf(at, " %s", unwinder ? "unwinder" : "code");
  for (; i < n; i++) at += sprintf(at, " %lx", (unsigned long)addresses[i] - STEP_BIAS);
  *at++ = '\n';
  step_length = (size_t)(at - step_text);
}

#ifdef STEP_HANDLED
static void step_handle(int signal, siginfo_t *info, void *context) {
  step_trap(signal, info, context);
  STEP_HANDLED;
}
#else
#define step_handle step_trap
#endif

static void step_begin(void) {
  void *addresses[4];
  struct sigaction action;
  step_text = (char *)malloc(ROOM);
  if (getenv("STEP_EVERY")) step_every = atoi(getenv("STEP_EVERY"));
  backtrace(addresses, 4);
  memset(&action, 0, sizeof action);
  action.sa_sigaction = step_handle;
  action.sa_flags = SA_SIGINFO | STEP_FLAGS;
  sigaction(SIGTRAP, &action, NULL);
  signal(SIGSEGV, step_fault);
}

static void step_end(void) {
  fwrite(step_text, 1, step_length, stdout);
  fprintf(stderr, "%d points\n", step_count);
}
#endif
