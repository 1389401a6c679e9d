// Ordinary tail calls in recursive cycles. Where the optimiser makes jumps of them, ten million of them need no stack,
// with the pass neither, and the chain says where frames are gone. Other tail calls keep their frames.
//# Chain[-O0] direct: even < odd < even < odd < even < main
//# Chain[!module, -O2] direct: even < <tail> < main
//# Chain[module, -O2] direct: even < <tail even> < main
//# Chain[-O0] other: odd < even < odd < even < main
//# Chain[-O2] other: odd < <tail even> < main
//# Chain[-O0] three: walk_b < walk_a < walk_c < walk_b < walk_a < main
//# Chain[-O2] three: walk_b < <tail walk_a> < main
//# Chain[-O0] pointer: chain_b < chain_a < chain_b < chain_a < main
//# Chain[-O2] pointer: chain_b < <tail chain_a> < main
//# Chain[-O0] entered: chain_b < chain_a < chain_b < chain_a < main
//# Chain[-O2] entered: chain_b < <tail> < main
//# Chain[-O0] words: spread_b < spread_a < spread_b < spread_a < main
//# Chain[-O2] words: spread_b < <tail spread_a> < main
//# Chain[-O0] mixed: leaf < mixed_b < mixed_a < mixed_b < mixed_a < main
//# Chain[-O2] mixed: leaf < mixed_b < <tail mixed_a> < main
//# Chain stack: many_b < many_a < many_b < many_a < main
//# Chain[aarch64, -O2] stack: many_b < <tail many_a> < main
//# Chain big: big_b < big_a < big_b < big_a < main
//# Chain grows: grow_b < grow_a < grow_b < grow_a < main
//# Chain plain: leaf < forward < main
//# Chain callback: called < forward_pointer < main
//# Chain after: leaf < main
//# Flags[-O2]: -DDEPTH=10000000
//# Flags[-O0]: -DDEPTH=4
#include "show.h"

// Used: the optimiser leaves its parameters as they are.
#define USED __attribute__((noinline, used))

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

// Direct calls.
NOINLINE static int odd(int n, const char *name);
NOINLINE static int even(int n, const char *name) {
  if (n == 0) {
    SHOW(name);
    return 1;
  }
  return odd(n - 1, name);
}
NOINLINE static int odd(int n, const char *name) {
  if (n == 0) {
    SHOW(name);
    return 0;
  }
  return even(n - 1, name);
}

// A cycle of three.
NOINLINE static long walk_b(long n, long sum);
NOINLINE static long walk_c(long n, long sum);
NOINLINE static long walk_a(long n, long sum) { return n == 0 ? sum : walk_b(n - 1, sum + 1); }
NOINLINE static long walk_b(long n, long sum) {
  if (n <= 1) {
    SHOW("three");
    return sum;
  }
  return walk_c(n - 1, sum ^ n);
}
NOINLINE static long walk_c(long n, long sum) { return walk_a(n - 1, sum + 3); }

// Through pointers.
typedef int function(int);
static function *volatile next[2];
static const char *chain_name = "pointer";
NOINLINE static int chain_a(int n) { return n == 0 ? 1 : next[n & 1](n - 1); }
NOINLINE static int chain_b(int n) {
  if (n == 0) {
    SHOW(chain_name);
    return 2;
  }
  return next[n & 1](n - 1);
}

// Nothing is returned, and more registers.
struct words {
  double a, b;
};
NOINLINE static void spread_b(struct words w, int n, struct words *out);
NOINLINE static void spread_a(struct words w, int n, struct words *out) {
  w.a += n;
  spread_b(w, n - 1, out);
}
NOINLINE static void spread_b(struct words w, int n, struct words *out) {
  if (n <= 1) {
    SHOW("words");
    *out = w;
    return;
  }
  w.b += n;
  spread_a(w, n - 1, out);
}

// The functions of the cycle make other calls, too.
NOINLINE static int mixed_b(int n);
NOINLINE static int mixed_a(int n) {
  KEEP;
  if (n < 0) leaf("never");
  return mixed_b(n - 1);
}
NOINLINE static int mixed_b(int n) {
  if (n <= 1) {
    leaf("mixed");
    return 5;
  }
  return mixed_a(n - 1);
}

// Arguments on the stack, and structures by value or as results: no jumps, frames are kept.
USED static int many_b(int n, int a, int b, int c, int d, int e, int f, int g);
USED static int many_a(int n, int a, int b, int c, int d, int e, int f, int g) {
  return many_b(n - 1, b, a, d, c, f, e, g + 1);
}
USED static int many_b(int n, int a, int b, int c, int d, int e, int f, int g) {
  if (n <= 1) {
    SHOW("stack");
    return a + b + c + d + e + f + g;
  }
  return many_a(n - 1, b, c, d, e, f, g, a);
}
struct big {
  long values[20];
};
USED static struct big big_b(int n);
USED static struct big big_a(int n) { return big_b(n - 1); }
USED static struct big big_b(int n) {
  if (n <= 1) {
    SHOW("big");
    struct big b = {{n, 2, 3}};
    return b;
  }
  return big_a(n - 1);
}

// The cycle needs stack in the plain build as well: frames are kept.
NOINLINE static int grow_b(int n);
NOINLINE static int grow_a(int n) { return grow_b(n - 1); }
NOINLINE static int grow_b(int n) {
  if (n <= 1) {
    SHOW("grows");
    return 1;
  }
  int result = grow_a(n - 1);
  KEEP;
  return result + 1;
}

// No cycle at all.
NOINLINE static void forward(const char *name) { leaf(name); }
NOINLINE static int called(int n, int m) { SHOW("callback"); return n + m; }
NOINLINE static int forward_pointer(int (*f)(int, int), int n) { return f(n, 1); }

int main(void) {
  volatile int depth = DEPTH;
  next[0] = chain_b;
  next[1] = chain_a;
  printf("%d\n", even(depth, "direct"));
  printf("%d\n", even(depth - 1, "other"));
  printf("%ld\n", walk_a(depth / 3 * 3 + 1, 0));
  next[0] = chain_a;
  next[1] = chain_b;
  printf("%d\n", chain_a(3));
  printf("%d\n", chain_a(depth - 1));
  chain_name = "entered";
  function *volatile entered = chain_a;
  printf("%d\n", entered(depth - 1));
  struct words w = {1, 2}, out;
  spread_a(w, depth, &out);
  printf("%g %g\n", out.a, out.b);
  printf("%d\n", mixed_a(depth));
  printf("%d\n", many_a(4, 1, 2, 3, 4, 5, 6, 7));
  printf("%ld\n", big_a(4).values[1]);
  printf("%d\n", grow_a(4));
  forward("plain");
  printf("%d\n", forward_pointer(called, depth));
  leaf("after");
  return 0;
}
