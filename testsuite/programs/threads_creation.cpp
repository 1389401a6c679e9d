// The contexts in which threads of the C++ library were created: std::thread, std::jthread's kind and std::async,
// several generations, with exceptions, and where the creation fails.
//# Chain first: work < first < ... < <thread> < ... < spawn < main
//# Chain second: work < second < ... < <thread> < ... < first < ... < <thread> < ... < spawn < main
//# Chain async: work < asynchronous < ... < <thread> < ... < spawn_async < main
//# Chain thrower: work < thrower < ... < <thread> < ... < spawn_async < main
//# Chain member: work < Worker::run(int) < ... < <thread> < ... < spawn_member < main
//# Chain destroyed: Counted::~Counted() < ... < <thread> < ... < spawn_member < main
//# Chain destroyed: Counted::~Counted() < ... < spawn_too_much < main
//# Chain failed: spawn_too_much < main
//# Chain after: main
//# Flags: -std=c++20
#include "show.h"
#include <cstdlib>
#include <future>
#include <pthread.h>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

NOINLINE static void work(const char *name) { SHOW_ACROSS(name); KEEP; }

static void second() { work("second"); KEEP; }
static void first(int n, std::vector<int> list) {
  printf("%d %zu\n", n, list.size());
  work("first");
  std::thread(second).join();
  KEEP;
}

NOINLINE static void spawn() {
  std::thread thread(first, 7, std::vector<int>(3));
  thread.join();
}

static int asynchronous(int n) { work("async"); return n + 1; }
static int thrower() { work("thrower"); throw std::runtime_error("thrown in a thread"); }

NOINLINE static void spawn_async() {
  printf("%d\n", std::async(std::launch::async, asynchronous, 41).get());
  try {
    printf("%d\n", std::async(std::launch::async, thrower).get());
  } catch (const std::exception &e) {
    puts(e.what());
  }
}

struct Worker {
  void run(int n) { printf("%d\n", n); work("member"); KEEP; }
};

// An argument's destructor runs behind the start routine.
struct Counted {
  bool owner = true;
  Counted() = default;
  Counted(Counted &&other) noexcept { other.owner = false; }
  NOINLINE ~Counted() { if (owner) SHOW_ACROSS("destroyed"); KEEP; }
};
static void takes(const Counted &) { KEEP; }

NOINLINE static void spawn_member() {
  Worker worker;
  std::thread(&Worker::run, &worker, 3).join();
  std::thread(takes, Counted()).join();
}

// No address space has such a stack: the exception comes, and the argument is destroyed once.
NOINLINE static void spawn_too_much() {
  pthread_attr_t old, huge;
  pthread_getattr_default_np(&old);
  pthread_attr_init(&huge);
  pthread_attr_setstacksize(&huge, size_t(1) << 56);
  pthread_setattr_default_np(&huge);
  try {
    std::thread(takes, Counted()).join();
  } catch (const std::system_error &) {
    puts("not created");
  }
  pthread_setattr_default_np(&old);
  SHOW_ACROSS("failed");
}

int main() {
  spawn();
  spawn_async();
  spawn_member();
  spawn_too_much();
  SHOW_ACROSS("after");
  return 0;
}
