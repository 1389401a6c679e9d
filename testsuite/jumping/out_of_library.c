/* A program jumps out of a function of a library's, over the library's activations, and calls it again. The library
   is built with -DLIBRARY. */
#include <setjmp.h>
#include <stdio.h>

void run(void (*)(void));
extern void (*volatile relayed)(void);
void relay(void);
void with_variables(void (*)(void (*)(void)));

#ifdef LIBRARY
#ifndef PLAIN
#include <pcce.h>
#endif

volatile unsigned long sum;

void run(void (*back)(void)) {
  back();
  sum++;
}

/* Leaves its activation to another function, which it marks. */
void (*volatile relayed)(void);
void relay(void) { __attribute__((musttail)) return relayed(); }

static void leaf(void) {
#ifndef PLAIN
  sum += pcce_context();
#endif
}

void with_variables(void (*back)(void (*)(void))) {
  volatile unsigned long values[32];
  for (int i = 0; i < 32; i++) values[i] = 0x1111111111111111ul * (i & 7);
  back(leaf);
  for (int i = 0; i < 32; i++)
    if (values[i] != 0x1111111111111111ul * (i & 7)) printf("library: %d overwritten: %lx\n", i, values[i]);
}
#else
static jmp_buf buffer;

static void jump(void) { longjmp(buffer, 1); }

static void nothing(void) {}

static void call(void (*function)(void)) { function(); }

static __attribute__((noinline)) void deep(int n) {
  volatile char room[64];
  room[0] = n;
  if (n)
    deep(n - 1);
  else
    run(jump);
  room[1] = n;
}

static __attribute__((noinline)) void once(int n) {
  if (!setjmp(buffer)) deep(n);
}

static __attribute__((noinline)) void with_own_variables(void) {
  volatile unsigned long values[200];
  for (int i = 0; i < 200; i++) values[i] = 0x1111111111111111ul;
  relayed = nothing;
  relay();
  for (int i = 0; i < 200; i++)
    if (values[i] != 0x1111111111111111ul) printf("program: %d overwritten: %lx\n", i, values[i]);
}

int main(void) {
  for (int n = 0; n < 12; n++) {
    once(n);
    with_own_variables();
    with_variables(call);
  }
  puts("end");
}
#endif
