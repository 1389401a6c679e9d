// What sanitizers and other instrumentation get between: constructors, calls that push, callbacks, exceptions, signals,
// threads, and variables whose addresses are used.
#include "show.h"
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Global {
  std::string text;
  explicit Global(const char *name) : text(name) { text += std::to_string(text.size()); }
  ~Global() { text.clear(); }
};
static Global first("first"), second("second");
Global third("third");

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
  std::string text = std::to_string(n);
  if (n == 0) throw std::runtime_error(text);
  thrower(n - 1);
  KEEP;
}

NOINLINE static void catcher() {
  try {
    thrower(3);
  } catch (const std::exception &) {
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
  std::copy(seen.begin(), seen.end(), sorted);
  qsort(sorted, seen.size(), sizeof(int), compare);
  free(sorted);
  by_pointer();
  raising();
  std::vector<int> other;
  std::thread(in_thread, &other).join();
  std::map<std::string, int> counts{{first.text, 1}, {second.text, 2}, {third.text, sum}};
  for (const auto &entry : counts) printf("%s %d\n", entry.first.c_str(), entry.second);
  show("end");
  return 0;
}
