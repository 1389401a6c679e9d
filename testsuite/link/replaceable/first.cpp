#include <stdarg.h>
#include "library.h"

void show(const char *what) { printf("%s %s\n", what, PCCE_TOKEN); fflush(stdout); }

int leaf(int x) { show("leaf"); return x + 1; }
__attribute__((noinline)) int silent(int x) { volatile int y = x; return y * 3; }
int thrower(int x) { show("thrower"); if (x > 2) throw x; return x; }
int plain_caller(int (*f)(int), int x) { return f(x) + 1; }
int recursive(int n) { if (n == 0) return leaf(0); return recursive(n - 1) + silent(n); }
int many(int a, double b, const char *c, long d, long e, long f, long g, Large large) {
  show(c); return a + (int)b + (int)(d + e + f + g + large.words[5]);
}
int variadic(int n, ...) {
  va_list list; va_start(list, n); int sum = 0;
  for (int i = 0; i < n; i++) sum += va_arg(list, int);
  va_end(list); show("variadic"); return sum;
}
