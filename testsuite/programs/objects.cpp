// Calls of functions in C++ without a call in the source: pointers to members, virtual bases, thunks, constructors
// with priorities, thread-local objects, static objects in functions, and what the library calls.
//# With: parts/objects.cpp
//# Flags: -std=c++20
//# Chain member: Part::one(int) < by_member < main
//# Chain virtual-member: Whole::two(int) < by_member < main
//# Chain thunk: Whole::side() < ... < through_side < main
//# Chain virtual-base: Whole::base() < ... < through_base < main
//# Chain first: init_first() < ...
//# Chain second: init_second() < ...
//# Chain priority: Early::Early(char const*) < ...
//# Chain priority: Early::Early(char const*) < ...
//# Chain thread-made: Local::Local() < ... < use_local < local_thread() < ...
//# Chain thread-made-main: Local::Local() < ... < use_local < main
//# Chain thread-used: Local::use(char const*) < use_local < local_thread() < ...
//# Chain thread-used-main: Local::use(char const*) < use_local < main
// The thread's start routine was left by a tail call, which is not forgotten.
//# Chain thread-ends: Local::~Local() < ...
//# Chain static-in-other: Static::Static() < instance() < other_static < main
//# Chain in-other: Inline::Inline < other_inline < main
//# Chain here: Inline::Inline < main
//# Chain destroyed: Inline::~Inline() < other_inline < main
//# Chain destroyed-here: Inline::~Inline() < main
//# Chain async: task < ... < std::future<int>::get() < main
//# Chain async-thread: task < ...
//# Chain bound: bound < ... < main
//# Chain sorted: Less::operator()(int, int) const < ... < main
//# Chain generic: auto main::$_0::operator()<int>(int) const < main
//# Chain stateless: ... < plain_caller < main
//# Chain after: main
//# Chain exit: Static::~Static()
#include "show.h"
#include "parts/objects.h"
#include <algorithm>
#include <functional>
#include <future>
#include <thread>
#include <vector>

__attribute__((constructor(201))) static void init_first() { SHOW("first"); puts("first"); }
__attribute__((constructor(202))) static void init_second() { SHOW("second"); puts("second"); }

struct Early {
  const char *name;
  NOINLINE Early(const char *name) : name(name) { SHOW("priority"); puts(name); }
};
static Early late __attribute__((init_priority(400))) ("late");
static Early soon __attribute__((init_priority(300))) ("soon");

struct Top {
  int n = 1;
  virtual ~Top() = default;
  NOINLINE virtual void base() { KEEP; }
};
struct Part : virtual Top {
  NOINLINE int one(int m) { SHOW("member"); KEEP; return n + m; }
  NOINLINE virtual int two(int m) { return m; }
};
struct Side : virtual Top {
  long filler = 3;
  NOINLINE virtual int side() { return 0; }
};
struct Whole final : Part, Side {
  NOINLINE int two(int m) override { SHOW("virtual-member"); KEEP; return n - m; }
  NOINLINE int side() override { SHOW("thunk"); KEEP; return 5; }
  NOINLINE void base() override { SHOW("virtual-base"); KEEP; }
};

NOINLINE static int by_member(Part &part, int (Part::*f)(int), int m) {
  int result = (part.*f)(m);
  KEEP;
  return result;
}
NOINLINE static int through_side(Side &side) { int n = side.side(); KEEP; return n; }
NOINLINE static void through_base(Top &top) { top.base(); KEEP; }

struct Local {
  int uses = 0;
  NOINLINE Local();
  NOINLINE ~Local() { SHOW("thread-ends"); printf("%d uses\n", uses); }
  NOINLINE int use(const char *name) { SHOW(name); KEEP; return ++uses; }
};
static thread_local bool in_main;
Local::Local() { SHOW(in_main ? "thread-made-main" : "thread-made"); KEEP; }
static thread_local Local local;

NOINLINE static int use_local() {
  int uses = local.use(in_main ? "thread-used-main" : "thread-used");
  KEEP;
  return uses;
}
static void local_thread() { use_local(); use_local(); KEEP; }

NOINLINE static int task(const char *name) { SHOW(name); KEEP; return 11; }
NOINLINE static void bound(const char *name, int n) { SHOW(name); printf("%d\n", n); }

struct Less {
  NOINLINE bool operator()(int a, int b) const { SHOW("sorted"); KEEP; return a < b; }
};

NOINLINE static int plain_caller(int (*f)(int)) { int n = f(4); KEEP; return n; }

int main() {
  in_main = true;
  Whole whole;
  int (Part::*volatile f)(int) = &Part::one;
  printf("%d\n", by_member(whole, f, 2));
  f = &Part::two;
  printf("%d\n", by_member(whole, f, 2));
  printf("%d\n", through_side(whole));
  through_base(whole);
  std::thread(local_thread).join();
  use_local();
  other_static();
  { Inline object("here", "destroyed-here"); }
  other_inline();
  printf("%d\n", std::async(std::launch::deferred, task, "async").get());
  printf("%d\n", std::async(std::launch::async, task, "async-thread").get());
  std::bind(bound, std::placeholders::_1, 3)("bound");
  std::vector<int> numbers = {2, 1};
  std::sort(numbers.begin(), numbers.end(), Less());
  auto generic = [](auto n) __attribute__((noinline)) { SHOW("generic"); KEEP; return n + 1; };
  printf("%d\n", generic(3));
  printf("%d\n", plain_caller([](int n) { SHOW("stateless"); KEEP; return n * 2; }));
  SHOW("after");
  return 0;
}
