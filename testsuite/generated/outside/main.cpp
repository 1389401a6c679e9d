#include <stdio.h>
int fuel;
volatile int zero;
static volatile unsigned sum;
__attribute__((noinline)) int note(int n) { sum = sum * 31 + n; return n & 7; }
Guard::Guard(int n) : n(n) { if (n % 11 == 0) throw n; note(n); }
Guard::~Guard() { note(n); }
__attribute__((noinline)) int throws(int n) {
  switch (n % 7) {
    case 0: throw n;
    case 1: throw std::string("text");
    case 2: throw std::runtime_error("error");
    default: return note(n);
  }
}
extern "C" int back(int n) { return note(n); }
int main() {
  for (int i = 0; i < 200; i++) {
    fuel = 60;
    try { sum += table[i % FUNCTIONS](i); } catch (...) { note(i); }
  }
  printf("%u\n", sum);
}
