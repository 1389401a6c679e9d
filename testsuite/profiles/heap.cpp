// Allocations of C++: containers, exceptions, over-aligned objects, thread-local objects, threads.
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

struct alignas(128) Wide {
  char bytes[128];
};
struct Node {
  std::string name;
  std::vector<int> values;
  std::unique_ptr<Node> next;
};
NOINLINE static std::unique_ptr<Node> build(int n) {
  if (n == 0) return nullptr;
  auto node = std::make_unique<Node>();
  node->name = std::string(20 + n, 'x');
  for (int i = 0; i < n; i++) node->values.push_back(i);
  node->next = build(n - 1);
  return node;
}
NOINLINE static void fail(int i) {
  if (i % 3 == 0) throw std::runtime_error("a message that does not fit into a small string " + std::to_string(i));
}
NOINLINE static std::size_t work(int id) {
  std::map<int, std::string> texts;
  for (int i = 0; i < 500; i++) {
    texts[i * id] = std::string(i % 100, 'y');
    try {
      fail(i);
    } catch (const std::exception &e) {
      texts[-i] = e.what();
    }
  }
  return texts.size();
}
struct Local {
  std::string text = std::string(100, 't');
};
thread_local Local local;
static std::vector<std::string> global;

int main(int argc, char **) {
  auto list = build(40);
  std::size_t sum = work(1) + local.text.size();
  for (int i = 0; i < 50; i++) global.push_back(std::string(i, 'g'));
  delete new Wide;
  delete[] new Wide[3];
  if (argc > 1) {
    std::vector<std::thread> threads;
    for (int i = 1; i <= 4; i++)
      threads.emplace_back([i] {
        work(i);
        local.text += "more";
      });
    for (auto &thread : threads) thread.join();
  }
  std::printf("%zu\n", sum);
}
