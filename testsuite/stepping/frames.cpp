// Frames of all kinds: of variable size, aligned, with arguments on the stack, left by exceptions.
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>
struct frame { unsigned long prev, id, site, handle; };
struct tls { unsigned long id, top; };
extern "C" __thread struct tls __pcce_tls __attribute__((tls_model("initial-exec")));
extern "C" char __executable_start;
#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")
volatile int sum;

// A line: the return addresses, each with the stack pointer in front of the call, and the frames.
static _Unwind_Reason_Code each(struct _Unwind_Context *context, void *) {
  printf("%lx:%lx ", _Unwind_GetIP(context) - BIAS, _Unwind_GetCFA(context));
  return _URC_NO_REASON;
}
NOINLINE static void show() {
  _Unwind_Backtrace(each, nullptr);
  printf("|");
  for (unsigned long at = __pcce_tls.top & ~1ul; at; at = ((struct frame *)at)->prev & ~1ul) printf(" %lx", at);
  printf("\n");
}

struct Guard {
  int n;
  NOINLINE ~Guard() { if (n > 2) { show(); KEEP; } sum += n; }
};

typedef void (*action)(int);
NOINLINE void leaf(int n) { if (n % 3 == 0) show(); KEEP; sum += n; }
NOINLINE void other(int n) { leaf(n); KEEP; leaf(n + 1); KEEP; }
action actions[] = {leaf, other, leaf};
NOINLINE void recursive(int n) {
  volatile char large[300];
  large[n] = 1;
  leaf(n); KEEP;
  if (n > 0) { recursive(n - 1); KEEP; actions[n % 3](n); KEEP; }
}
NOINLINE int many(int a, int b, int c, int d, int e, int f, int g, int h, int i) {
  recursive(a % 2); KEEP;
  return a + b + c + d + e + f + g + h + i;
}
NOINLINE void dynamic(int n) {
  volatile char *array = (volatile char *)alloca(n * 16);
  array[n] = 1;
  recursive(n % 3); KEEP;
  sum += many(n, 1, 2, 3, 4, 5, 6, 7, array[n]); KEEP;
}
NOINLINE void aligned(int n) {
  alignas(64) volatile char array[64];
  array[n] = 1;
  recursive(n % 3); KEEP;
  actions[n % 3](n); KEEP;
}
NOINLINE int early(int n, action f) {
  if (n == 0) return 1;
  Guard guard{n};
  f(n); KEEP;
  sum += many(n, 2, 3, 4, 5, 6, 7, 8, 9); KEEP;
  return n;
}
NOINLINE void throws(int n) {
  Guard guard{n};
  recursive(1); KEEP;
  if (n > 3) throw n;
}
NOINLINE void catches(int n) {
  try { throws(n); KEEP; } catch (int m) { recursive(m % 3); KEEP; actions[m % 3](m); KEEP; }
  switch (n) {
    case 0: leaf(0); KEEP; break;
    case 1: other(2); KEEP; break;
    case 2: recursive(3); KEEP; break;
    case 3: dynamic(n); KEEP; // and on
    case 4: aligned(n); KEEP; break;
    case 5: sum += early(n, other); KEEP; break;
    default: abort();
  }
}
NOINLINE static int compare(const void *x, const void *y) {
  recursive(1); KEEP;
  return *(const int *)x - *(const int *)y;
}

int main() {
  int values[] = {3, 1, 2};
  for (int i = 0; i < 12; i++) { catches(i % 6); KEEP; recursive(i); KEEP; actions[i % 3](i); KEEP; }
  qsort(values, 3, sizeof values[0], compare);
  return early(0, leaf) - 1;
}
