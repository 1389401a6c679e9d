// Exceptions go through the last function of the file, at its last instructions, too. Its unwind information is longer
// than the code needs.
#include <cstdio>
#include <stdexcept>

static volatile int sum;
struct Counted {
  ~Counted() { sum = sum + 1; }
};

__attribute__((noinline)) static int leaf(int n) {
  sum = sum + n;
  return sum;
}
void last(int n);

__attribute__((noinline)) static void through(int n) {
  Counted counted;
  last(n);
  leaf(2);
}

int main() {
  int caught = 0;
  for (int n = 0; n < 300; n++) {
    try {
      through(n);
    } catch (const std::runtime_error &error) {
      caught += error.what()[0] == 'o' ? leaf(n) % 7 : leaf(3);
    }
  }
  std::printf("%d %d\n", caught, sum);
}

__attribute__((noinline)) void last(int n) {
  Counted counted;
  if (n % 3 == 0)
    leaf(n);
  if (n % 5 == 0)
    throw std::runtime_error(n % 2 ? "odd" : "even");
  if (n % 7 == 0)
    last(n + 1);
  leaf(1);
  if (n % 11 == 0)
    throw std::runtime_error("late");
}
