// Virtual calls, std::function, lambdas, and constructors that call on.
//# Chain Circle: Circle::draw() < draw_all < main
//# Chain Square: Square::draw() < draw_all < main
//# Chain base: Shape::Shape() < Circle::Circle() < main
//# Chain base: Shape::Shape() < Square::Square() < main
//# Chain lambda: main::$_0::operator()(int) const < ... < call(std::function<void (int)> const&) < main
//# Chain plain: plain(int) < ... < call(std::function<void (int)> const&) < main
//# Chain after: main
//# Fixed after
#include "show.h"
#include <functional>
#include <memory>
#include <vector>

struct Shape {
  NOINLINE Shape() { SHOW("base"); }
  virtual ~Shape() = default;
  virtual void draw() = 0;
};

struct Circle final : Shape {
  NOINLINE Circle() { KEEP; }
  NOINLINE void draw() override { SHOW("Circle"); KEEP; }
};

struct Square final : Shape {
  NOINLINE Square() { KEEP; }
  NOINLINE void draw() override { SHOW("Square"); KEEP; }
};

NOINLINE static void draw_all(std::vector<std::unique_ptr<Shape>> &shapes) {
  for (auto &shape : shapes) shape->draw();
  KEEP;
}

NOINLINE static void call(const std::function<void(int)> &f) {
  f(7);
  KEEP;
}

NOINLINE static void plain(int n) {
  SHOW("plain");
  printf("plain %d\n", n);
}

int main() {
  std::vector<std::unique_ptr<Shape>> shapes;
  shapes.emplace_back(new Circle);
  shapes.emplace_back(new Square);
  draw_all(shapes);
  int base = 1;
  call([&](int n) __attribute__((noinline)) {
    SHOW("lambda");
    printf("lambda %d\n", n + base);
  });
  call(plain);
  SHOW("after");
  return 0;
}
