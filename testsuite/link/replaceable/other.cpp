#include "library.h"

// Functions that take the place of the library's.
#ifdef PLAIN
#undef PCCE_TOKEN
#define SHOW(what)
#else
static void show_here(const char *what) { printf("other %s %s\n", what, PCCE_TOKEN); }
#define SHOW(what) show_here(what)
#endif
int leaf(int x) { SHOW("leaf"); return x + 100; }
int silent(int x) { SHOW("silent"); return own(x); }
int thrower(int x) { SHOW("thrower"); if (x > 1) throw x; return plain_caller(own, x); }
int many(int a, double b, const char *c, long d, long e, long f, long g, Large large) {
  SHOW("many"); return a + (int)b + c[0] + (int)(d + e + f + g + large.words[5]) + recursive(1);
}
int variadic(int n, ...) { SHOW("variadic"); return n; }
