// Where exceptions were thrown, as their handlers ask for it.
#include <cstdio>
#include <exception>
#include <pcce.h>
#include <stdexcept>
#include <string>
#include <thread>

static void where(const char *what) {
  char token[1024];
  size_t length = pcce_thrown_token(token, sizeof token);
  if (length != std::string(token).size()) what = "wrong length";
  std::printf("%s %s\n", what, token);
}

__attribute__((noinline)) static void deep(int n) {
  if (n == 0) throw std::runtime_error("deep");
  deep(n - 1);
  asm volatile("");
}
/// Its handler is of another type.
__attribute__((noinline)) static int parse(int n) {
  try {
    deep(n);
  } catch (const std::logic_error &) {
    return 1;
  }
  return 0;
}
__attribute__((noinline)) static void by_library() { (void)std::string("short").at(9); }
__attribute__((noinline)) static void again(int n) {
  try {
    deep(n);
  } catch (...) {
    throw;
  }
}

int main() {
  where("nothing");
  std::exception_ptr kept;
  try {
    parse(2);
  } catch (const std::exception &) {
    where("thrown");
    kept = std::current_exception();
  }
  try {
    by_library();
  } catch (const std::exception &) {
    where("library");
  }
  // The same object is raised again, and then, at the same place, another one.
  for (int i = 0; i < 2; i++) {
    try {
      again(i);
    } catch (const std::exception &) {
      where("again");
    }
  }
  std::thread([&] {
    where("nothing");
    try {
      std::rethrow_exception(kept);
    } catch (...) {
      where("moved");
    }
  }).join();
  char few[8] = "1234567";
  if (pcce_thrown_token(few, sizeof few) < sizeof few || few[0] != 0 || pcce_thrown_token(nullptr, 0) == 0) {
    where("wrong");
  }
  std::set_terminate([] {
    where("uncaught");
    std::fflush(stdout);
    std::_Exit(3);
  });
  parse(0);
}
