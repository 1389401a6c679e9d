// From C++20 on the program has functions of std::string of its own, which the C++ library's may call, too.
//# Chain before: leaf(char const*) < main
//# Chain after: leaf(char const*) < use(int) < main
//# Flags: -std=c++20
//# Levels: -O0 -O2
#include "show.h"
#include <string>

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

NOINLINE static void use(int n) {
  std::string text;
  text.assign("some text that does not fit into the object itself, but into memory that is allocated");
  for (int i = 0; i < n; i++) text += std::to_string(i) + text.substr(0, 3);
  std::string other = text;
  other.insert(5, "inserted").replace(2, 3, "replaced").resize(200, '!');
  printf("%zu %zu\n", text.size(), other.find('!'));
  leaf("after");
  KEEP;
}

int main() {
  leaf("before");
  use(20);
  return 0;
}
