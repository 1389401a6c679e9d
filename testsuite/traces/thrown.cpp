// Exceptions through a program, a library and a plugin that call each other back, caught in each of them, thrown on and
// anew, with destructors on the way, and jumps over all of it; with -DNAME=library or -DNAME=plugin, one of these.
#include <stdexcept>
#include <string>
typedef int called(int, int);
#define NOINLINE __attribute__((noinline))
#ifdef NAME
#define JOIN(x, y) x##y
#define OWN(x, y) JOIN(x, y)
static volatile int sum;
NOINLINE static int note(int n) { sum += n; return sum & 3; }
struct OWN(NAME, _guard) {
  int kept;
  ~OWN(NAME, _guard)() { note(kept); }
};
typedef OWN(NAME, _guard) Guard;
NOINLINE static int raise(int n) {
  note(n);
  if (n % 3 == 0) throw std::runtime_error("r");
  if (n % 3 == 1) throw n;
  throw std::string("s");
}
NOINLINE static int deep(int n, int depth, called *f) {
  Guard guard{n};
  if (depth == 0) return n % 4 == 0 ? raise(n) : f(n, n % 5);
  try {
    return deep(n + 1, depth - 1, f) + note(depth);
  } catch (int thrown) {
    if (depth % 2) throw;
    return note(thrown);
  } catch (const std::string &text) {
    Guard other{depth};
    note((int)text.size());
    if (depth == 3) throw std::runtime_error("again");
    return 2;
  }
}
extern "C" int OWN(NAME, _enter)(int n, called *f) {
  try {
    Guard guard{n};
    return deep(n, n % 4, f);
  } catch (const std::runtime_error &) {
    note(7);
    if (n % 2) throw;
    return 3;
  }
}
extern "C" int OWN(NAME, _tail)(int n, called *f) { return n & 1 ? OWN(NAME, _enter)(n, f) : f(n, 1); }
#else
#include <csetjmp>
#include <cstdio>
#include <dlfcn.h>
#include <thread>
typedef int entry(int, called *);
extern "C" entry library_enter, library_tail;
static entry *plugin_enter, *plugin_tail;
static thread_local int depth;
static thread_local bool jumps;
static thread_local jmp_buf out;
static volatile int sum;
struct Guard {
  int kept;
  ~Guard() { sum += kept; }
};
NOINLINE static int leaf(int n) { sum += n; return n & 1; }
NOINLINE static int back(int n, int rest) {
  if (jumps && n % 7 == 3 && depth > 2) longjmp(out, 1);
  Guard guard{n};
  if (++depth > 9 || rest == 0) {
    depth--;
    if (n % 2) throw n;
    if (n % 5 == 0) throw std::string("h");
    return leaf(n);
  }
  int result;
  try {
    if (n & 1) result = library_enter(n + rest, back);
    else if (n % 3) result = plugin_tail(n - rest, back);
    else result = plugin_enter(n + 1, back) + library_tail(n, back);
  } catch (int thrown) {
    depth--;
    if (thrown % 4 == 0) throw std::runtime_error("x");
    return leaf(thrown);
  } catch (...) {
    depth--;
    if (n % 3) throw;
    return leaf(n);
  }
  depth--;
  return result + leaf(rest);
}
NOINLINE static int rounds(int factor) {
  int result = 0;
  for (int i = 0; i < 30; i++) {
    try {
      result += i % 2 ? library_enter(i * factor, back) : plugin_enter(i + factor, back);
      result += back(i, i % 6);
    } catch (int) {
      result++;
    } catch (const std::exception &) {
      result += leaf(2);
    } catch (const std::string &text) {
      result += (int)text.size();
    }
    depth = 0;
    if (setjmp(out) == 0) {
      jumps = true;
      try {
        result += library_tail(i, back);
      } catch (...) {
        leaf(4);
      }
    } else {
      result += leaf(9);
    }
    jumps = false;
    depth = 0;
  }
  return result;
}
int main(int, char **arguments) {
  void *plugin = dlopen(arguments[1], RTLD_NOW);
  if (!plugin) return std::puts(dlerror());
  plugin_enter = (entry *)dlsym(plugin, "plugin_enter");
  plugin_tail = (entry *)dlsym(plugin, "plugin_tail");
  int first = rounds(1), second = 0;
  std::thread([&] { second = rounds(3); }).join();
  std::printf("%d %d %d\n", first, second, rounds(2));
  return 0;
}
#endif
