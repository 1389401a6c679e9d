// Each thread has a state of its own, which starts at its start function.
//# Chain worker: work < worker(int) < ...
//# Chain pthread: work < start
//# Chain recursive: recurse*11 < start
//# Chain main: work < main
//# Chain once: work < once < <pthread_once> < start
//# Fixed main
#include "show.h"
#include <pthread.h>
#include <thread>
#include <vector>

NOINLINE static void work(const char *name) { SHOW(name); KEEP; }
NOINLINE static void nothing() { KEEP; }

// A thread of std::thread: the library's own start code stands between.
NOINLINE static void worker(int n) {
  for (int i = 0; i < 1000 + n; i++) nothing();
  work("worker");
  KEEP;
}

NOINLINE static int recurse(int n, int last) {
  if (n <= 0) {
    if (n < 0) SHOW("recursive");
    return 0;
  }
  int result = recurse(n == 1 ? last : n - 1, last) + 1;
  KEEP;
  return result;
}

static pthread_once_t once_control = PTHREAD_ONCE_INIT;
static void once() { work("once"); KEEP; }

static void *start(void *argument) {
  for (int i = 0; i < 100; i++) recurse(9, 0);
  recurse(10, -1);
  work("pthread");
  pthread_once(&once_control, once);
  KEEP;
  return argument;
}

int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) threads.emplace_back(worker, i);
  pthread_t more[4];
  for (auto &thread : more)
    if (pthread_create(&thread, nullptr, start, nullptr) != 0) return 1;
  work("main");
  for (auto &thread : threads) thread.join();
  for (auto &thread : more) pthread_join(thread, nullptr);
  puts("joined");
  return 0;
}
