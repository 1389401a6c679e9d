#include <cstdio>
#include <stdexcept>

double measure(double side, void (*tell)(double));

static void tell(double area) { std::printf("area %g\n", area); }

int main() {
  try {
    measure(-1, tell);
  } catch (const std::invalid_argument &e) {
    std::printf("caught %s\n", e.what());
  }
  return measure(3, tell) == 9 ? 0 : 1;
}
