// Functions that a trace tells of in different ways: `parse` is inlined, `skipped` may be left out, and called through a
// pointer, `name` has an ABI tag, and `scaled` template arguments.
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

APART int skipped(const char *text) { return std::atoi(text); }
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

int (*volatile pointer)(const char *) = app::skipped;

int main(int count, char **) {
  app::Store store{count};
  int sum = count > 5 ? app::never("1") : 0;
  for (int i = 0; i < 4; i++)
    sum += app::handle("7") + pointer("3") + static_cast<int>(store.scaled<long>(i)) + app::silent(i);
  return sum == 0;
}
