#include <cstdio>
#include <stdexcept>
#include <string>
__attribute__((cold, noinline)) void usage(int n) {
  throw std::invalid_argument(std::string("bad count ") + std::to_string(n));
}
extern "C" __attribute__((noinline)) void grow(std::string &s) { s.append("xyz", 3); __asm__ volatile(""); }
int main(int argc, char **argv) {
  if (argc > 5) usage(argc);
  std::string s = argv[0];
  for (int i = 0; i < 9; i++) grow(s);
  std::printf("%zu\n", s.size());
}
