// Coroutines that hand over to each other: a transfer is a call that must be a tail call, so a million of them need no
// stack; generators that call generators, and exceptions out of coroutines.
//# Flags: -std=c++20
//# Chain start: leaf < ping < ... < main
//# Chain deep: leaf < ping < ... < main
//# Chain in-generator: leaf < numbers < ... < sum < main
//# Chain in-outer: leaf < doubled < ... < sum < main
//# Chain thrown: leaf < fails < ... < main
//# Chain caught: main
//# Chain other-thread: leaf < fails < ... < in_thread() < ...
//# Chain after: main
#include "show.h"
#include <coroutine>
#include <exception>
#include <thread>

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

struct Transfer {
  struct promise_type {
    std::coroutine_handle<> next;
    Transfer get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

struct To {
  std::coroutine_handle<> next;
  bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<>) noexcept { return next; }
  void await_resume() noexcept {}
};

static Transfer ping(long rounds, std::coroutine_handle<> *other) {
  for (long i = 0; i < rounds; i++) {
    if (i == 0) leaf("start");
    if (i == rounds - 1) leaf("deep");
    co_await To{*other};
  }
}
static Transfer pong(std::coroutine_handle<> *other) {
  for (;;) co_await To{*other};
}

struct Generator {
  struct promise_type {
    int value = 0;
    std::exception_ptr error;
    Generator get_return_object() { return Generator{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(int v) { value = v; return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
  };
  std::coroutine_handle<promise_type> handle;
  explicit Generator(std::coroutine_handle<promise_type> handle) : handle(handle) {}
  Generator(const Generator &) = delete;
  ~Generator() { handle.destroy(); }
  NOINLINE bool next() {
    handle.resume();
    if (handle.promise().error) std::rethrow_exception(handle.promise().error);
    return !handle.done();
  }
};

static Generator numbers(int n) {
  for (int i = 0; i < n; i++) {
    if (i == 2) leaf("in-generator");
    co_yield i;
  }
}
static Generator doubled(int n) {
  Generator inner = numbers(n);
  while (inner.next()) {
    if (inner.handle.promise().value == 1) leaf("in-outer");
    co_yield inner.handle.promise().value * 2;
  }
}
static Generator fails(const char *name) {
  co_yield 1;
  leaf(name);
  throw 17;
}

NOINLINE static int sum(int n) {
  int sum = 0;
  Generator outer = doubled(n);
  while (outer.next()) sum += outer.handle.promise().value;
  KEEP;
  return sum;
}

static void in_thread() {
  Generator failing = fails("other-thread");
  try {
    while (failing.next()) KEEP;
  } catch (int) {
    puts("caught in thread");
  }
}

int main() {
  std::coroutine_handle<> a, b;
  Transfer first = ping(1000000, &b), second = pong(&a);
  a = first.handle;
  b = second.handle;
  first.handle.resume();
  printf("%d\n", first.handle.done());
  printf("%d\n", sum(4));
  Generator failing = fails("thrown");
  try {
    while (failing.next()) KEEP;
  } catch (int n) {
    SHOW("caught");
    printf("%d\n", n);
  }
  std::thread(in_thread).join();
  SHOW("after");
  return 0;
}
