#include <pcce.h>
#include <cstdio>
int thrower(int n) { std::puts(PCCE_TOKEN); if (n % 3 == 0) throw n; return n; }
