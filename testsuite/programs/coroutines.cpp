// Coroutines: the body runs in functions that the compiler makes, called through pointers.
//# Flags: -std=c++20
//# Chain body: inner < body < ... < Task::resume() < drive < main
//# Chain other: inner < body < ... < Task::resume() < drive < elsewhere < main
//# Chain after: main
//# Fixed after
#include "show.h"
#include <coroutine>

struct Task {
  struct promise_type {
    Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> handle;
  NOINLINE bool resume() {
    handle.resume();
    KEEP;
    return !handle.done();
  }
};

NOINLINE static void inner(const char *name) { SHOW(name); KEEP; }

static Task body(int n) {
  for (int i = 0; i < n; i++) {
    inner(i == 0 ? "body" : "other");
    co_await std::suspend_always{};
  }
}

NOINLINE static bool drive(Task &task) {
  bool more = task.resume();
  KEEP;
  return more;
}

NOINLINE static bool elsewhere(Task &task) {
  bool more = drive(task);
  KEEP;
  return more;
}

int main() {
  Task task = body(2);
  printf("%d\n", drive(task));
  printf("%d\n", elsewhere(task));
  printf("%d\n", elsewhere(task));
  task.handle.destroy();
  SHOW("after");
  return 0;
}
