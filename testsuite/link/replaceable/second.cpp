#include "library.h"

namespace {
struct Guard { const char *name; ~Guard() { show(name); } };
__attribute__((noinline)) int catches(int x) {
  try { Guard guard{"cleanup"}; return thrower(x) + leaf(x); } catch (int y) { show("caught"); return y + leaf(y); }
}
__attribute__((noinline)) int nested(int x) { return catches(x) + catches(x + 1) + silent(x); }
}

__attribute__((visibility("hidden"))) int hidden(int x) { return leaf(x) + silent(x); }
int own(int x) { return leaf(x); }
int work(int x) {
  Large large = {{1, 2, 3, 4, 5, 6}};
  int r = leaf(x) + silent(x) + hidden(x) + nested(x) + nested(x + 1) + recursive(3);
  r += many(1, 2.5, "many", 4, 5, 6, 7, large) + variadic(3, 1, 2, 3);
  r += plain_caller(own, x) + plain_caller(leaf, x);
  for (int i = 0; i < 2; i++) r += thrower(i) + silent(i);
  show("end");
  return r;
}
