// Exceptions through destructors, recursion and calls through pointers; virtual calls; a library's callbacks.
#include "step.h"
#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

volatile int sum;
NOINLINE static void leaf(int n) { sum = sum + n; KEEP; }
NOINLINE static int a(int n) { leaf(n); KEEP; leaf(n + 1); KEEP; return n + sum; }

struct Guard {
  int n;
  explicit Guard(int n) : n(n) { leaf(n); KEEP; }
  ~Guard() { a(n); KEEP; }
};
struct Shape {
  virtual ~Shape() {}
  virtual int area(int n) { return a(n); }
};
struct Square : Shape {
  int area(int n) override { Guard guard(n); KEEP; return a(n) + n; }
};
struct Circle : Shape {
  int area(int n) override { return n * 3; }
};

NOINLINE static int thrower(int n) {
  Guard guard(n);
  if (n == 0) throw std::runtime_error("thrown");
  int r = thrower(n - 1) + a(n);
  KEEP;
  return r;
}
NOINLINE static int catcher(int n) {
  try {
    Guard guard(n);
    return thrower(n);
  } catch (const std::runtime_error &) {
    a(n + 1);
    KEEP;
  }
  try {
    thrower(1);
  } catch (...) {
    a(n + 2);
    KEEP;
  }
  return a(n + 3);
}
NOINLINE static int rethrower(int n) {
  try {
    return thrower(n);
  } catch (...) {
    leaf(n);
    KEEP;
    throw;
  }
}
NOINLINE static int seldom(int n) {
  Guard guard(n);
  if (__builtin_expect(n > 0, 0)) { int r = seldom(n - 1); KEEP; return r + a(r); }
  if (__builtin_expect(n == 0, 0)) throw n;
  return a(n);
}
NOINLINE static void through(const std::function<int(int)> &f, int n) { sum = sum + f(n); KEEP; }

NOINLINE static void work(int n) {
  sum = sum + catcher(2);
  KEEP;
  try { rethrower(1); } catch (...) { a(n); KEEP; }
  try { sum = sum + seldom(2); KEEP; } catch (int m) { a(m); KEEP; }
  Shape *shapes[] = {new Square, new Circle, new Shape};
  for (Shape *s : shapes) { sum = sum + s->area(n); KEEP; }
  for (Shape *s : shapes) { delete s; KEEP; }
  through([n](int m) { leaf(m); KEEP; return a(n) + m; }, n);
  std::vector<int> v = {5, 3, 9, 1};
  std::sort(v.begin(), v.end(), [](int x, int y) { leaf(x); KEEP; return x < y; });
  std::map<std::string, int> names;
  for (int i : v) { names[std::to_string(i)] = a(i); KEEP; }
}

int main(int argc, char **) {
  try { thrower(0); } catch (...) { leaf(1); }
  step_begin();
  STEP_ON;
  work(argc);
  KEEP;
  STEP_OFF;
  step_end();
}
