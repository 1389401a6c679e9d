// Targeted mode in C++: a target by its name in the source, exceptions and destructors through what is silent.
//# Modes: lto module link
//# Flags[!plain]: --pcce-targets=app::Store::put
//# Chain put: app::Store::put < app::fill < main
//# Chain virtual: app::Store::put < app::Other::area < app::visit < main
//# Chain caught: app::Store::put < app::catcher < main
//# Chain cleaned: app::Store::put < app::Guard::~Guard < app::cleans < main
//# Chain signal: on_signal < <signal> < app::quiet < app::silent < app::catcher < main
//# Chain after: main
//# Fixed after
#include "show.h"
#include <signal.h>
#include <stdexcept>
#include <vector>

static volatile int sum;
static void on_signal(int) { SHOW("signal"); }

namespace app {
struct Store {
  NOINLINE void put(const char *name) { SHOW(name); KEEP; }
};
static Store shared;

struct Shape {
  virtual ~Shape() {}
  virtual void area() { sum = sum + 1; }
};
struct Other : Shape {
  NOINLINE void area() override { shared.put("virtual"); KEEP; }
};
struct Guard {
  NOINLINE ~Guard() { shared.put("cleaned"); KEEP; }
};

NOINLINE static void quiet(int n) { if (n == 2) __asm__ volatile("int3"); KEEP; sum = sum + n; }
// It throws, and reaches no target: nothing has to be restored.
NOINLINE static void silent(int n) { quiet(n); if (n > 1) throw std::runtime_error("thrown"); KEEP; }
NOINLINE static void fill() { shared.put("put"); KEEP; }
NOINLINE static void visit(Shape &shape) { shape.area(); KEEP; }
NOINLINE static void catcher() {
  try { silent(1); silent(2); } catch (const std::runtime_error &) { shared.put("caught"); }
  KEEP;
}
NOINLINE static void cleans() { Guard guard; silent(3); KEEP; }
} // namespace app

int main() {
  signal(SIGTRAP, on_signal);
  app::fill();
  app::Shape plain;
  app::Other other;
  app::visit(plain);
  app::visit(other);
  app::catcher();
  try { app::cleans(); } catch (const std::exception &) { printf("caught\n"); }
  std::vector<int> values(3, 7);
  printf("%d %d\n", sum, values[2]);
  SHOW("after");
}
