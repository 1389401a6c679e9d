// Recursion that is expected to be seldom, whose pushes go through functions of the pass's own, in a thread.
#include <cstdio>
#include <pcce.h>
#include <thread>

namespace tree {
struct Node {
  int depth;
};
__attribute__((noinline)) void stop(const Node &node) { std::printf("%d %s\n", node.depth, PCCE_TOKEN); }
__attribute__((noinline)) void walk(const Node &node) {
  if (__builtin_expect(node.depth > 0, 0)) {
    walk(Node{node.depth - 1});
    std::puts("back");
  } else {
    stop(node);
  }
}
} // namespace tree

int main() {
  std::thread([] { tree::walk(tree::Node{2}); }).join();
  return 0;
}
