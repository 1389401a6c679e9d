// Functions that a trace tells of in different ways: `parse` is inlined, `compare` may be left out, and only a library
// calls it, `name` has an ABI tag, and `scaled` template arguments.
#include <cstdio>
#include <cstdlib>
#include <string>

#define APART __attribute__((noinline))

namespace app {
APART std::string name(int n) { return std::string(static_cast<size_t>(n) + 40, 'x'); }

struct Store {
  int size;
  template <class T> APART T scaled(T by) const { return by * size + std::atoi("4"); }
};

APART int compare(const void *one, const void *other) {
  return *static_cast<const int *>(one) - *static_cast<const int *>(other);
}
APART int never(const char *text) { return std::atoi(text) + 1; }
static inline __attribute__((always_inline)) int parse(const char *text) {
  int n = std::atoi(text);
  if (n > 5)
    std::puts("large");
  return n;
}
APART int handle(const char *text) { return parse(text) + static_cast<int>(name(3).size()); }
APART int silent(int n) { return n * n % 1000; }
} // namespace app

int main(int count, char **) {
  app::Store store{count};
  int numbers[] = {3, 1, 2};
  std::qsort(numbers, 3, sizeof numbers[0], app::compare);
  int sum = count > 5 ? app::never("1") : 0;
  for (int i = 0; i < 4; i++)
    sum += app::handle("7") + static_cast<int>(store.scaled<long>(i)) + app::silent(i);
  return sum + numbers[0] == 0;
}
