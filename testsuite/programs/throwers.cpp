// The program's own definitions of what libstdc++ calls by name within functions that are known not to call back: of a
// member of std::string, of what throws its errors, and of what throws at all. The library's calls reach them.
//# Chain create: std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long) < ... < grow < deep*3 < use < main
//# Chain length: std::__throw_length_error(char const*) < ... < grow < deep*3 < use < main
//# Chain[module] allocated: __cxa_throw < <unknown operator new(unsigned long)> < use < main
//# Chain[!module] allocated: __cxa_throw < <unknown>
//# Chain caught: use < main
//# Chain after: main
//# Levels: -O0 -O1 -O2
#include "show.h"
#include <dlfcn.h>
#include <new>
#include <stdexcept>
#include <string>
#include <typeinfo>

static const char *volatile throwing;
static void *volatile kept;

// std::string::_M_create
NOINLINE char *make(std::string *, size_t &size, size_t)
    __asm__("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm");
NOINLINE char *make(std::string *, size_t &size, size_t) {
  SHOW("create");
  if (size > 1000) std::__throw_length_error("too long");
  return static_cast<char *>(::operator new(size + 1));
}

namespace std {
NOINLINE void __throw_length_error(const char *what) {
  SHOW("length");
  throwing = nullptr;
  throw length_error(what);
}
}

extern "C" NOINLINE void __cxa_throw(void *object, std::type_info *type, void (*destroy)(void *)) {
  if (throwing) SHOW(throwing);
  auto *next = (void (*)(void *, std::type_info *, void (*)(void *)))dlsym(RTLD_NEXT, "__cxa_throw");
  next(object, type, destroy);
  __builtin_unreachable();
}

NOINLINE static void grow(std::string &text, size_t count) { text.append(count, 'x'); KEEP; }

NOINLINE static void deep(std::string &text, size_t count, int depth) {
  if (depth > 1) deep(text, count, depth - 1);
  else grow(text, count);
  KEEP;
}

NOINLINE static void use(std::string &text) {
  deep(text, 100, 3);
  try {
    deep(text, 2000, 3);
  } catch (const std::length_error &) {
    SHOW("caught");
  }
  throwing = "allocated";
  try {
    kept = ::operator new(size_t(1) << 62);
  } catch (const std::bad_alloc &) {
    SHOW("caught");
  }
  KEEP;
}

int main() {
  std::string text;
  use(text);
  printf("%zu\n", text.size());
  SHOW("after");
  return 0;
}
