#include <pcce.h>
#include <cstdio>
int thrower(int);
int first(int n) { return thrower(n); }
int second(int n) { return thrower(n + 1); }
int third(int n) { return thrower(n + 2); }
int (*volatile calls[])(int) = {first, second, third};
int main() {
  for (auto call : calls)
    for (int n = 0; n < 4; n++)
      try { std::printf("%d\n", call(n) + first(n) + second(n) + third(n)); }
      catch (int) { std::puts(PCCE_TOKEN); }
}
