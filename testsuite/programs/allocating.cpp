// A program that sets no handler: `operator new`, strings and trees call nothing back, so recursion that allocates does
// nothing to the id. Exceptions leave it, and what is behind them has the context of its function.
//# Chain tree: leaf < main
//# Chain thrown: thrown_through < main
//# Chain text: leaf < text < main
//# Chain bad: bad < main
//# Chain after: leaf < main
//# Levels: -O0 -O2
#include "show.h"
#include <map>
#include <new>
#include <string>

struct Node {
  int key;
  Node *left = nullptr, *right = nullptr;
  explicit Node(int k) : key(k) {}
};

NOINLINE static void leaf(const char *of) { SHOW(of); KEEP; }

NOINLINE static Node *insert(Node *node, int key) {
  if (!node) return new Node(key);
  if (key < node->key) node->left = insert(node->left, key);
  else node->right = insert(node->right, key);
  return node;
}

NOINLINE static std::string repeated(int n, int end) {
  std::string text;
  if (n == end) throw n;
  if (n > 0) text = repeated(n - 1, end);
  text.append("some text that is not short enough to be held in place");
  return text;
}

NOINLINE static void thrown_through() {
  std::map<std::string, int> counts;
  try {
    for (int i = 0; i < 9; i++) counts[repeated(i, 7)]++;
  } catch (int) {
    SHOW("thrown");
  }
}

NOINLINE static size_t text() {
  std::string all = repeated(20, -1);
  leaf("text");
  return all.size();
}

NOINLINE static void bad(size_t n) {
  try {
    volatile char *bytes = new char[n];
    bytes[0] = 1;
  } catch (std::bad_alloc &) {
    SHOW("bad");
  }
}

int main() {
  Node *root = nullptr;
  for (int i = 0; i < 1000; i++) root = insert(root, i * 37 % 501);
  leaf("tree");
  thrown_through();
  if (text() == 0 || root == nullptr) return 1;
  bad(size_t(1) << 62);
  leaf("after");
}
