// Imports the module, and is called back by it.
#include "show.h"
import shapes;
struct Square : Shape { NOINLINE void draw(long n) override { Shape::draw(n + 1); KEEP; } };
extern "C" NOINLINE void by_pointer(void (*f)(long)) { f(3); KEEP; }
int main() {
  Square square;
  Shape *shape = &square;
  shape->draw(1); KEEP;
  by_pointer(draw); KEEP;
  each(2, [&](long n) { shape->draw(n); KEEP; }); KEEP;
  return 0;
}
