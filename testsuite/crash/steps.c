// Single steps through a function that unwind tables do not describe, or describe wrongly. Each line of output is the
// chain of calls, as the program keeps it, and a token of the instruction.
// Ways: `hoisted`: LLVM moves the end of two epilogues in front of the branch between them, and its tables not;
// `assembly`: assembly moves the stack pointer; `pushed`: a function that pushes, in a program without tables.

#define _GNU_SOURCE
#include <pcce.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "../src/machine/stepping.h"

#define NOINLINE __attribute__((noinline))
#define BARRIER __asm__ volatile("" ::: "memory")

static volatile int on;
static const char *volatile chain;
static unsigned long from, length;

static void step(int signal, siginfo_t *info, void *interrupted) {
  (void)signal;
  (void)info;
  if (!on)
    STOP_STEPPING(interrupted);
  unsigned long at = (unsigned long)INSTRUCTION(interrupted);
  char token[2048];
  if (!on || !chain || at - from >= length)
    return;
  pcce_token_at(token, sizeof token, INSTRUCTION(interrupted), STACK_POINTER(interrupted));
  printf("%s %s\n", chain, token);
}

NOINLINE static int first(int n) { BARRIER; return n + 1; }
NOINLINE static int second(int n) { BARRIER; return n + 2; }
NOINLINE static int calls(int n) { BARRIER; return n; }

NOINLINE static int hoisted(int n) {
  volatile long words[2];
  words[0] = words[1] = n;
  calls(n);
  n = ~n;
  BARRIER;
  if (n & 3)
    return first(n - 1);
  return second(n - 1);
}

NOINLINE static int assembly(int n) {
  long words[5], flags;
  __asm__ volatile("" ::"r"(words));
  if (n)
    __asm__ volatile("pushq %%rbx; pushfq; nop; popq %0; popq %%rbx" : "=r"(flags));
  BARRIER;
  return calls(n);
}

#define BY(name) \
  NOINLINE static int name##_short(int n) { \
    chain = "main;" #name "_both;" #name "_short;" #name; \
    int result = name(n); \
    chain = 0; \
    return result + 1; \
  } \
  NOINLINE static int name##_long(int n) { \
    long words[3]; \
    __asm__ volatile("" ::"r"(words)); \
    chain = "main;" #name "_both;" #name "_long;" #name; \
    int result = name(n); \
    chain = 0; \
    return result + 1; \
  } \
  NOINLINE static int name##_both(int n) { \
    int result = name##_short(n); \
    BARRIER; \
    return result + name##_long(n); \
  }

BY(hoisted)
BY(assembly)

static char last[512];
NOINLINE static int captures(int n) { pcce_token(last, sizeof last); return n; }
NOINLINE static int odd(int n);

NOINLINE static int even(int n) {
  chain = n == 2 ? "main;odd;even" : 0;
  int result = n > 0 ? odd(n - 1) : captures(n);
  chain = n == 2 ? "main;odd;even" : 0;
  BARRIER;
  result++;
  chain = 0;
  return result;
}

NOINLINE static int odd(int n) {
  chain = 0;
  int result = n > 0 ? even(n - 1) : captures(n);
  BARRIER;
  return result + 1;
}

int main(int argc, char **argv) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, 0);
  char way = argc > 1 ? argv[1][0] : 0;
  length = 60;
  from = (unsigned long)(way == 'h' ? hoisted : way == 'a' ? assembly : even);
  if (way == 'p')
    length = (unsigned long)odd - from;
  on = 1;
  STEP_ON;
  int result = way == 'h' ? hoisted_both(argc) : way == 'a' ? assembly_both(argc) : odd(3);
  on = 0;
  BARRIER;
  return result == 77;
}
