// A stack of its own, to which plain code (-DPLAIN) switches by setjmp and longjmp, and from where frames lead that are
// gone.
#ifdef PLAIN
#define _GNU_SOURCE
#include <setjmp.h>
#include <ucontext.h>

static jmp_buf in, out;
static ucontext_t context;
static char stack[1 << 16];
static void (*start)(void);
static int started;

static void entry(void) {
  start();
  _longjmp(out, 1);
}
void yield(void) {
  if (!_setjmp(in)) _longjmp(out, 1);
}
void resume(void (*body)(void)) {
  if (_setjmp(out)) return;
  if (started++) _longjmp(in, 1);
  start = body;
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = sizeof stack;
  makecontext(&context, entry, 0);
  setcontext(&context);
}
#else
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

void yield(void);
void resume(void (*)(void));

NOINLINE static void step(int n) {
  printf("step %d\n", n);
  yield();
}
static void body(void) {
  for (int i = 0;; i++) step(i);
}
NOINLINE static void use(void) {
  volatile char text[4000];
  memset((char *)text, 'A', sizeof text);
}
NOINLINE static void deeper(int n) {
  if (n) {
    deeper(n - 1);
    puts(".");
  } else {
    resume(body);
  }
}
int main(void) {
  for (int i = 0; i < 6; i++) {
    use();
    deeper(i ? 12 : 4);
    use();
  }
  puts("end");
  return 0;
}
#endif
