// More of exceptions: through recursion, pointers, constructors and C frames, thrown again and kept for later, in
// function try blocks and destructors; handlers and all that follows have the context of their function.
//# With: parts/catching.c
//# Flags: -fexceptions
//# Chain try-block: Derived::Derived(int) < main
//# Chain try-block-function: try_block < main
//# Chain member: Member::~Member() < Derived::Derived(int) < main
//# Chain base: Base::~Base() < Derived::Derived(int) < main
//# Chain recursion: recursive < recursive < recursive < recursive < main
//# Chain recursion-destructor: Guard::~Guard() < recursive < recursive < recursive < main
//# Chain recursion-destructor: Guard::~Guard() < recursive < recursive < main
//# Chain recursion-handler: recursive < recursive < main
//# Chain recursion-guard: Guard::~Guard() < recursive < main
//# Chain recursion-after: leaf < recursive < main
//# Chain pointer: throws < by_pointer < main
//# Chain pointer-handler: by_pointer < main
//# Chain virtual-handler: Catcher::run(Thrower&) < main
//# Chain c-throw: throws < through_c < c_frames < main
//# Chain c-handler: c_frames < main
//# Chain again: rethrow_later < main
//# Chain again-leaf: leaf < rethrow_later < main
//# Chain from-handler: replaces < main
//# Chain from-handler-outer: replaces < main
//# Chain in-destructor: Swallows::~Swallows() < unwinds < main
//# Chain in-destructor-leaf: leaf < Swallows::~Swallows() < unwinds < main
//# Chain unwinds: unwinds < main
//# Chain nested: nested < main
//# Chain new: allocates < main
//# Chain thread: in_thread() < ...
//# Chain thread-handler: main
//# Chain terminate: on_terminate() < ... < stops < main
//# Chain after: leaf < main
//# ExitStatus: 4
//# Levels: -O0 -O2
#include "show.h"
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

extern "C" int through_c(int (*f)(int), int n);

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

struct Guard {
  const char *name;
  NOINLINE ~Guard() { SHOW(name); KEEP; }
};

NOINLINE static int throws(int n) {
  if (n == 1) SHOW("pointer");
  if (n == 2) SHOW("c-throw");
  if (n > 0) throw n;
  return 0;
}

struct Member {
  NOINLINE ~Member() { SHOW("member"); KEEP; }
};
struct Base {
  NOINLINE ~Base() { SHOW("base"); KEEP; }
};
struct Derived : Base {
  Member member;
  int value;
  NOINLINE Derived(int n) try : value(throws(n)) {
    KEEP;
  } catch (int) {
    SHOW("try-block");
    throw;
  }
};

NOINLINE static int try_block(int n) try {
  return throws(n) + 1;
} catch (int value) {
  SHOW("try-block-function");
  return value * 2;
}

NOINLINE static int recursive(int n) {
  if (n == 0) {
    SHOW("recursion");
    throw std::string("deep");
  }
  try {
    Guard guard{n < 3 ? "recursion-destructor" : "wrong"};
    if (n == 3) guard.name = "recursion-guard";
    int value = recursive(n - 1);
    KEEP;
    return value;
  } catch (const std::string &text) {
    if (n == 1) throw;
    if (n == 2) {
      SHOW("recursion-handler");
      throw 5;
    }
  } catch (int value) {
    leaf("recursion-after");
    return value;
  }
  return 1;
}

NOINLINE static int by_pointer(int (*f)(int), int n) {
  try {
    return f(n);
  } catch (...) {
    SHOW("pointer-handler");
    return 10;
  }
}

struct Thrower {
  virtual ~Thrower() = default;
  NOINLINE virtual int go(int n) { throw std::runtime_error(std::to_string(n)); }
};
struct Catcher {
  NOINLINE int run(Thrower &thrower) {
    int sum = 0;
    for (int i = 0; i < 3; i++) {
      try {
        thrower.go(i);
      } catch (const std::exception &e) {
        sum += atoi(e.what());
      }
    }
    SHOW("virtual-handler");
    return sum;
  }
};

NOINLINE static int c_frames() {
  try {
    return through_c(throws, 2);
  } catch (int value) {
    SHOW("c-handler");
    return value + 100;
  }
}

static std::exception_ptr kept;
NOINLINE static int rethrow_later() {
  try {
    throws(3);
  } catch (...) {
    kept = std::current_exception();
  }
  try {
    std::rethrow_exception(kept);
  } catch (int value) {
    SHOW("again");
    leaf("again-leaf");
    return value;
  }
}

NOINLINE static int replaces() {
  try {
    try {
      throws(6);
    } catch (int value) {
      SHOW("from-handler");
      throw long(value + 1);
    }
  } catch (long value) {
    SHOW("from-handler-outer");
    return int(value);
  }
  return 0;
}

struct Swallows {
  NOINLINE ~Swallows() {
    try {
      throws(8);
    } catch (int) {
      SHOW("in-destructor");
      leaf("in-destructor-leaf");
    }
  }
};
NOINLINE static int unwinds() {
  try {
    Swallows swallows;
    throws(7);
  } catch (int value) {
    SHOW("unwinds");
    return value + std::uncaught_exceptions();
  }
  return 0;
}

NOINLINE static int nested() {
  int sum = 0;
  try {
    throws(3);
  } catch (int a) {
    try {
      throws(4);
    } catch (int b) {
      sum = a * 10 + b;
      SHOW("nested");
    }
  }
  return sum;
}

struct Large {
  int value;
  NOINLINE Large(int n) : value(throws(n)) {}
};
NOINLINE static int allocates(int n) {
  try {
    Large *large = new Large(n);
    delete large;
  } catch (int value) {
    SHOW("new");
    return value;
  }
  return 0;
}

static void in_thread() {
  try {
    throws(9);
  } catch (...) {
    SHOW("thread");
    kept = std::current_exception();
  }
}

NOINLINE static void stops() noexcept {
  throws(5);
  KEEP;
}
static void on_terminate() {
  SHOW("terminate");
  puts("terminate");
  exit(4);
}

int main() {
  try {
    Derived derived(3);
  } catch (int value) {
    printf("%d\n", value);
  }
  printf("%d\n", try_block(4));
  printf("%d\n", recursive(3));
  printf("%d\n", by_pointer(throws, 1));
  Thrower thrower;
  printf("%d\n", Catcher().run(thrower));
  printf("%d\n", c_frames());
  printf("%d\n", rethrow_later());
  printf("%d\n", replaces());
  printf("%d\n", unwinds());
  printf("%d\n", nested());
  printf("%d\n", allocates(3));
  std::thread(in_thread).join();
  try {
    std::rethrow_exception(kept);
  } catch (int value) {
    SHOW("thread-handler");
    printf("%d\n", value);
  }
  leaf("after");
  std::set_terminate(on_terminate);
  stops();
}
