// Contexts of C++. Built with each row of flags.toml: ../src/matrix.rs.
#include "../programs/show.h"
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static thread_local volatile long sum;
NOINLINE static void leaf(long n) { sum = sum + n; if (n % 3 == 0) SHOW("leaf"); KEEP; }

struct Global {
  NOINLINE explicit Global(long n) { leaf(n); KEEP; }
  NOINLINE ~Global() { leaf(6); KEEP; }
};
static Global global(3), another(9);

struct Shape {
  virtual ~Shape() { leaf(12); KEEP; }
  virtual void draw(long n) = 0;
};
struct Circle : Shape { NOINLINE void draw(long n) override { leaf(n); KEEP; } };
struct Square : virtual Shape {
  NOINLINE void draw(long n) override { leaf(n + 1); KEEP; leaf(n + 2); KEEP; }
};
template <class T> NOINLINE void each(const std::vector<std::unique_ptr<Shape>> &all, T n) {
  for (auto &shape : all) { shape->draw(n); KEEP; }
}

template <class... T> struct Pack { NOINLINE static void show(long n, T...) { SHOW("pack"); KEEP; leaf(n); KEEP; } };

struct Guard {
  long n;
  NOINLINE ~Guard() { leaf(n); KEEP; }
};
#if __cpp_exceptions
NOINLINE static void throws(long n) {
  Guard guard{n};
  leaf(n); KEEP;
  if (n % 2) throw n;
}
NOINLINE static void catches(long n) {
  try { throws(n); KEEP; } catch (long m) { leaf(3 * m); KEEP; }
  SHOW("behind"); KEEP;
}
#else
NOINLINE static void catches(long n) { Guard guard{n}; leaf(n); KEEP; }
#endif

NOINLINE static void work(long n) {
  std::vector<std::unique_ptr<Shape>> shapes;
  shapes.push_back(std::make_unique<Circle>());
  shapes.push_back(std::make_unique<Square>());
  each(shapes, n); KEEP;
  each(shapes, static_cast<short>(n)); KEEP;
  std::vector<long> values{5, 3, 9, 1};
  std::sort(values.begin(), values.end(), [](long a, long b) { leaf(a); KEEP; return a < b; }); KEEP;
  std::function<void(long)> function = [&](long m) { leaf(m + values[0]); KEEP; };
  function(n); KEEP;
  std::map<std::string, std::function<void(long)>> named{{"a", leaf}, {"b", function}};
  for (auto &[name, f] : named) { f(n); KEEP; }
  Pack<>::show(n); KEEP;
  Pack<int, const char *>::show(n, 1, ""); KEEP;
  catches(n); KEEP;
  catches(n + 1); KEEP;
}

int main() {
  work(3); KEEP;
  std::thread thread([] { work(6); KEEP; });
  thread.join(); KEEP;
  work(4); KEEP;
  printf("%ld\n", sum + 0); KEEP;
  return 0;
}
