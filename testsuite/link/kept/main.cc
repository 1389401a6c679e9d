#include <pcce.h>
#include <cstdio>
#include <vector>
extern "C" { int one(int), two(int), joined(int), plain(int (*)(int)), odd(int), listed(int); }
extern "C" int leaf(int n) { char t[4096]; pcce_token(t, sizeof t); std::puts(t); return n; }
struct base { virtual int call(int n) = 0; virtual ~base() {} };
template <int N> struct derived : base { int call(int n) override { return leaf(n) + N; } };
int main() {
  derived<1> a; derived<2> b; std::vector<base *> all = {&a, &b};
  int sum = 0;
  try { for (base *each : all) sum += each->call(1); if (sum) throw sum; } catch (int n) { sum += leaf(n); }
  return sum + one(1) + two(2) + joined(3) + plain(leaf) + odd(1) + listed(1) > 0 ? 0 : 1;
}
