// A program with an operator new of its own, which the library's code calls.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

static long count;

void *operator new(std::size_t n) {
  count++;
  for (;;) {
    if (void *p = std::malloc(n))
      return p;
    if (auto handler = std::get_new_handler())
      handler();
    else
      throw std::bad_alloc();
  }
}

void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }

__attribute__((noinline)) static int fill(std::map<std::string, int> &m, int i) {
  m[std::to_string(i) + " and more, so that it is on the heap"] += i;
  if (i % 7 == 0)
    throw std::runtime_error("seven");
  return i;
}

int main() {
  std::map<std::string, int> m;
  std::vector<std::string> v;
  int sum = 0;
  for (int i = 0; i < 50; i++) {
    try {
      sum += fill(m, i);
      v.push_back(std::string(30 + i, 'x'));
    } catch (std::exception &e) {
      sum += e.what()[0];
    }
  }
  return sum > 100 && count > 50 ? 0 : 1;
}
