#include <stdexcept>

extern "C" double rectangle(double a, double b);

struct Shape {
  virtual double area() const = 0;
  virtual ~Shape() = default;
};

struct Square : Shape {
  double side;
  explicit Square(double s) : side(s) {}
  double area() const override {
    if (side < 0)
      throw std::invalid_argument("negative");
    return rectangle(side, side);
  }
};

double measure(double side, void (*tell)(double)) {
  Shape *shape = new Square(side);
  double area = shape->area();
  delete shape;
  tell(area);
  return area;
}
