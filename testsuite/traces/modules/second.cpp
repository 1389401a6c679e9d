#include "shared.h"

struct Guard {
  int n;
  ~Guard() { first(n); }
};
int Base::value(int n) {
  return in_both(n) + first(n);
}
extern "C" {
NOINLINE static int local(int n) {
  __asm__("");
  return n * 2;
}
int first(int n) {
  return local(n) + 1;
}
int second(int n) {
  return n > 3 ? first(n - 1) : local(n);
}
int through(int n) {
  Guard guard = {n};
  return thrower(n) + in_both(n);
}
int ping(int n) {
  return pong(n);
}
int called_twice(int n) {
  return hidden(n);
}
int labels(int n) {
  static const void *const table[] = {&&even, &&odd};
  goto *table[n & 1];
even:
  return hidden(n);
odd:
  return left_to(n);
}
int leaves(int n) {
  if (n & 1) __attribute__((musttail)) return left_to(n);
  return first(n);
}
__attribute__((weak)) int weak_one(int n) {
  return local(n);
}
int by_pointer(int (*function)(int), int n) {
  return function(n) + first(n);
}
}
