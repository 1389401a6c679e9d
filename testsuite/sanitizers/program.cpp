// Constructs that sanitizers and other instrumentation change: constructors, calls that push, callbacks, exceptions,
// signals, threads, and variables whose addresses are used.
#include "show.h"
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

// Nothing of libstdc++'s own code writes what is read here: MemorySanitizer does not see it.
struct Global {
  int *value;
  explicit Global(int n) : value(new int(n)) { printf("made %d\n", *value); }
  ~Global() { delete value; }
};
static Global first(1), second(2);
Global third(3);

NOINLINE static void show(const char *name) { SHOW(name); KEEP; }

NOINLINE static int recursive(int n, std::vector<int> &seen) {
  int own[4] = {n, n + 1, n + 2, n + 3};
  seen.insert(seen.end(), own, own + 4);
  if (n == 0) {
    show("recursive");
    return 1;
  }
  return own[n & 3] + recursive(n - 1, seen);
}

extern "C" int compare(const void *a, const void *b) {
  static bool shown;
  if (!shown) show("callback");
  shown = true;
  return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

NOINLINE static void thrower(int n) {
  Global local(n + 10);
  if (n == 0) throw *local.value;
  thrower(n - 1);
  KEEP;
}

NOINLINE static void catcher() {
  try {
    thrower(3);
  } catch (int) {
    show("caught");
  }
  KEEP;
}

extern "C" void on_signal(int) { show("signal"); KEEP; }
extern "C" void on_action(int, siginfo_t *info, void *) { show(info ? "action" : "nothing"); KEEP; }

NOINLINE static void raising() {
  signal(SIGUSR1, on_signal);
  struct sigaction action = {};
  action.sa_sigaction = on_action;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGUSR2, &action, nullptr);
  raise(SIGUSR1);
  raise(SIGUSR2);
  KEEP;
}

NOINLINE static void in_thread(std::vector<int> *to) {
  recursive(2, *to);
  show("thread");
  KEEP;
}

static void (*volatile by_pointer)() = catcher;

int main() {
  std::vector<int> seen;
  int sum = recursive(5, seen);
  int *sorted = static_cast<int *>(malloc(seen.size() * sizeof(int)));
  for (size_t i = 0; i < seen.size(); i++) sorted[i] = seen[i];
  qsort(sorted, seen.size(), sizeof(int), compare);
  free(sorted);
  by_pointer();
  raising();
  std::vector<int> other;
  std::thread(in_thread, &other).join();
#ifdef _OPENMP
#pragma omp parallel
  {
#pragma omp master
    show("parallel");
    KEEP;
  }
#endif
  printf("%d %zu %zu %d\n", sum, seen.size(), other.size(), *first.value + *second.value + *third.value);
  show("end");
  return 0;
}
