// Ways to define a function: naked, ifunc, alias, weak and undefined, gnu_inline, other calling conventions, cleanup.
//# With: parts/definitions.c
//# Chain naked: called_by_naked < <naked> < main
//# Chain ifunc: chosen < main
//# Chain ifunc-in-other: chosen < other_ifunc < main
//# Chain alias: real < main
//# Chain alias-of-alias: real < main
//# Chain weak-alias: real < main
//# Chain[-O0] gnu-inline: gnu_leaf < gnu < main
//# Chain[-O2] gnu-inline: gnu_leaf < inlined gnu < main
//# Chain local-gnu-inline: gnu_leaf < gnu < use_gnu < main
//# Chain ms: ms_callee < ms_caller < main
//# Chain ms-variadic: ms_variadic < ms_caller < main
//# Chain preserve: preserving < ms_caller < main
//# Chain vector: vectors < ms_caller < main
//# Chain after-cleanup: leaf < cleaner < cleans < main
//# Chain section: in_section < main
//# Chain strong: overridden < main
//# Chain hidden: hidden < main
//# Chain address: leaf < addresses < main
//# Chain big: leaf < big_frame < big_frame < main
//# Chain loop: leaf < loops < main
//# Chain loop-pointer: leaf < loops < main
//# Chain pointer-to-other: in_other < by_pointer < main
//# Chain after: main
//# Fixed after
#include "show.h"
#include "parts/definitions.h"
#include <alloca.h>
#include <stdarg.h>
#include <stdlib.h>

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

// Assembly alone: not instrumented, so it is code of another kind in the chain.
__attribute__((used, noinline)) static void called_by_naked(void) { SHOW("naked"); KEEP; }
__attribute__((naked, noinline)) static void naked(void) {
#ifdef __aarch64__
  __asm__ volatile("stp x29, x30, [sp, #-16]!\n\tbl called_by_naked\n\tldp x29, x30, [sp], #16\n\tret");
#else
  __asm__ volatile("subq $8, %rsp\n\tcallq called_by_naked\n\taddq $8, %rsp\n\tretq");
#endif
}

NOINLINE static int chosen(const char *name) { SHOW(name); KEEP; return 7; }
static int (*resolve(void))(const char *) { return chosen; }
int by_ifunc(const char *name) __attribute__((ifunc("resolve")));

NOINLINE void real(const char *name) { SHOW(name); KEEP; }
void first_alias(const char *name) __attribute__((alias("real")));
void second_alias(const char *name) __attribute__((alias("first_alias")));
void weak_alias(const char *name) __attribute__((weak, alias("real")));

// Nobody defines it.
__attribute__((weak)) void undefined(void);
__attribute__((weak)) NOINLINE void overridden(const char *name) { (void)name; SHOW("wrong"); KEEP; }
__attribute__((visibility("hidden"))) NOINLINE void hidden(const char *name) { SHOW(name); KEEP; }
__attribute__((section(".text.elsewhere"))) NOINLINE void in_section(const char *name) { SHOW(name); KEEP; }

__attribute__((ms_abi)) NOINLINE static int ms_callee(int a, double b, int c, int d, int e) {
  SHOW("ms");
  KEEP;
  return a + (int)b + c + d + e;
}
__attribute__((ms_abi)) NOINLINE static int ms_variadic(int count, ...) {
  __builtin_ms_va_list list;
  __builtin_ms_va_start(list, count);
  int sum = 0;
  for (int i = 0; i < count; i++) sum += __builtin_va_arg(list, int);
  __builtin_ms_va_end(list);
  SHOW("ms-variadic");
  KEEP;
  return sum;
}
__attribute__((preserve_most)) NOINLINE static int preserving(int a, int b) {
  SHOW("preserve");
  KEEP;
  return a * b;
}
typedef float vector __attribute__((vector_size(16)));
NOINLINE static vector vectors(vector a, vector b, long double c, __int128 d) {
  SHOW("vector");
  KEEP;
  return a * b + (float)c + (float)d;
}
NOINLINE static int ms_caller(int n) {
  volatile int one = 1;
  int sum = ms_callee(n, 2.5, 3, 4, one) + ms_variadic(3, n, 5, one);
  sum += preserving(sum, n);
  vector v = vectors((vector){1, 2, 3, 4}, (vector){5, 6, 7, 8}, n, (__int128)n << 3);
  return sum + (int)v[3];
}

NOINLINE static void cleaner(int *n) { leaf("after-cleanup"); printf("cleanup %d\n", *n); }
NOINLINE static int cleans(int n) {
  __attribute__((cleanup(cleaner))) int local = n;
  if (n > 1) return local + 1;
  return 0;
}

NOINLINE static int addresses(void) {
  char *ours = __builtin_return_address(0);
  char *frame = __builtin_frame_address(0);
  char here;
  leaf("address");
  return ours != NULL && frame != NULL && ours == (char *)__builtin_return_address(0) &&
         labs(frame - &here) < 4096;
}

NOINLINE static long big_frame(int n) {
  volatile char room[300000];
  room[0] = room[sizeof room - 1] = (char)n;
  if (n > 0) {
    long sum = big_frame(n - 1);
    KEEP;
    return sum + room[0];
  }
  leaf("big");
  return room[0] + room[sizeof room - 1];
}

// Dynamic stack in loops, with calls that push in between.
NOINLINE static long loops(int n) {
  void (*volatile f)(const char *) = leaf;
  long sum = 0;
  char *kept = NULL;
  for (int i = 1; i <= n; i++) {
    volatile char vla[i * 100];
    vla[i] = (char)i;
    leaf("loop");
    f("loop-pointer");
    char *more = alloca((size_t)i * 10);
    memset(more, i, (size_t)i * 10);
    sum += vla[i] + more[i] + (kept ? kept[1] : 0);
    kept = more;
    f("loop-pointer");
  }
  return sum;
}

NOINLINE static void by_pointer(void (*f)(const char *), const char *name) { f(name); KEEP; }

int main(void) {
  naked();
  printf("%d\n", by_ifunc("ifunc"));
  printf("%d\n", other_ifunc("ifunc-in-other"));
  first_alias("alias");
  second_alias("alias-of-alias");
  weak_alias("weak-alias");
  if (undefined) undefined();
  overridden("strong");
  hidden("hidden");
  in_section("section");
  printf("%d\n", gnu("gnu-inline"));
  printf("%d\n", use_gnu("local-gnu-inline"));
  printf("%d\n", ms_caller(3));
  printf("%d\n", cleans(4));
  printf("%d\n", addresses());
  printf("%ld\n", big_frame(1));
  printf("%ld\n", loops(4));
  by_pointer(in_other, "pointer-to-other");
  SHOW("after");
  return 0;
}
