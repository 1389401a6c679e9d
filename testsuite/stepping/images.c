// A program that is called back by a library, and calls it by name, through pointers, and out of a cycle; with
// -DLIBRARY, the library; with -DREPLACING, one that replaces a function of that library; with -DPLAIN, one that is
// built without the pass, and calls both. With -DJUMPS calls in tail position are jumps.
#define NOINLINE __attribute__((noinline))
#ifdef JUMPS
#define KEEP
#else
#define KEEP __asm__ volatile("" ::: "memory")
#endif
typedef int called(int);
int by_name(int n, called *f);
int through_pointer(int n, called *f);
int variadic(int n, called *f, ...);
int hop(int n, int (*to)(int, called *), called *f);
extern volatile int sum;
#ifdef PLAIN
int hop(int n, int (*to)(int, called *), called *f) {
  int r = n & 1 ? by_name(1, f) : f(n);
  KEEP;
  r += to(n, f);
  KEEP;
  return r;
}
#elif defined REPLACING
// In the place of the library's.
int away(int n, called *f) {
  int r = f(n);
  KEEP;
  return r + f(n + 1);
}
#elif defined LIBRARY
volatile int sum;
NOINLINE static int leaf(int n) { sum += n; return sum & 7; }
NOINLINE static int middle(int n, called *f) {
  int r = leaf(n) + f(n);
  KEEP;
  if (n > 1) r += middle(n - 2, f);
  KEEP;
  return r + leaf(r);
}
int by_name(int n, called *f) {
  int r = middle(n, f) + leaf(n);
  KEEP;
  return r + f(n + 1);
}
NOINLINE int away(int n, called *f) { return f(n); }
int through_pointer(int n, called *f) {
  if (n == 3) {
    int r = away(n, f);
    KEEP;
    return r;
  }
  int r = n & 1 ? middle(n, f) : leaf(n);
  KEEP;
  return r + leaf(n);
}
// Nothing can be put in front of it that hands its arguments on.
int variadic(int n, called *f, ...) {
  __builtin_va_list rest;
  __builtin_va_start(rest, f);
  int r = f(__builtin_va_arg(rest, int)) + leaf(n);
  __builtin_va_end(rest);
  KEEP;
  return r + middle(1, f);
}
#else
#define STEP_BIAS 0UL
#include "step.h"
#include <link.h>
#ifdef JUMPS
#undef KEEP
#define KEEP
#endif

static called *volatile other;
NOINLINE static int own(int n) { sum += n; return n; }
NOINLINE static int back(int n) { int r = own(n); KEEP; return r + own(n + 1); }
NOINLINE static int recursive(int n, called *f) {
  int r = through_pointer == 0 ? 0 : f(n);
  KEEP;
  int (*volatile pointer)(int, called *) = through_pointer;
  r += pointer(n, f);
  KEEP;
  if (n > 0) r += recursive(n - 1, f);
  KEEP;
  return r + (n == 2 ? by_name(n, f) : 0);
}
NOINLINE static int jumped(int n) { int r = through_pointer(n, other); KEEP; return r; }
NOINLINE static int jumped_from(int n, called *f) { int r = through_pointer(n + 1, f); KEEP; return r; }
NOINLINE static int again(int n) { int r = n > 2 ? recursive(1, back) : own(n); KEEP; return r; }
NOINLINE static int work(int n) {
  int (*volatile pointer)(int, called *) = through_pointer;
  int r = by_name(n, back);
  KEEP;
  r += pointer(n + 1, back) + pointer(n, other);
  KEEP;
  r += recursive(3, other) + by_name(4, again);
  KEEP;
  int (*volatile hops)(int, int (*)(int, called *), called *) = hop;
  r += hop(3, through_pointer, back) + hops(2, by_name, other) + hops(1, jumped_from, again);
  KEEP;
  int (*volatile any)(int, called *, ...) = variadic;
  r += jumped(3) + by_name(2, jumped) + any(n, back, 3) + variadic(n, again, 4);
  KEEP;
  return r;
}

static int show_image(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  (void)data;
  printf("image %lx %s\n", (unsigned long)info->dlpi_addr, info->dlpi_name);
  return 0;
}

int main(void) {
  other = own;
  step_begin();
  STEP_ON;
  work(2);
  KEEP;
  work(3);
  KEEP;
  STEP_OFF;
  dl_iterate_phdr(show_image, 0);
  step_end();
  return 0;
}
#endif
