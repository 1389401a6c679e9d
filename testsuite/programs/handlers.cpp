// Functions that C++'s allocation calls: a handler that the program sets, from any caller of `operator new`, and
// exceptions that leave it through functions that do nothing to the id.
//# Chain handler: handler() < ... < big < main
//# Chain caught: big < main
//# Chain string-handler: handler() < ... < grows < main
//# Chain string-caught: grows < main
//# Chain thrown: main
//# Chain after: leaf < main
//# Levels: -O0 -O2
#include "show.h"
#include <new>
#include <stdexcept>
#include <string>

static const char *name;

NOINLINE static void leaf(const char *of) { SHOW(of); KEEP; }

// Called by `operator new` only.
static void handler() {
  SHOW(name);
  throw std::bad_alloc();
}

NOINLINE static void big(size_t n) {
  try {
    volatile char *bytes = new char[n];
    bytes[0] = 1;
  } catch (std::bad_alloc &) {
    SHOW("caught");
  }
}

NOINLINE static void grows(size_t n) {
  std::string text;
  try {
    text.reserve(n);
  } catch (std::bad_alloc &) {
    SHOW("string-caught");
  }
}

struct Node {
  Node *next = nullptr;
};

// Takes no context: it allocates, and throws at the end of its recursion.
NOINLINE static Node *chain(int n) {
  if (n == 0) throw std::length_error("the end");
  Node *node = new Node;
  try {
    node->next = chain(n - 1);
  } catch (std::bad_alloc &) {
    return node;
  }
  return node;
}

int main() {
  std::set_new_handler(handler);
  name = "handler";
  big(size_t(1) << 62);
  name = "string-handler";
  grows(size_t(1) << 61);
  try {
    chain(100);
  } catch (std::length_error &) {
    SHOW("thrown");
  }
  leaf("after");
}
