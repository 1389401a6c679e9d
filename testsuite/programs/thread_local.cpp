// A thread_local variable of a shared library is made by a function that has two names: others may replace the one by
// which it is called.
//# Library: parts/thread_local.cpp
//# Levels: -O2
//# Chain made: Held::Held() < __cxx_global_var_init < __tls_init < held < main
//# Chain after: held < main
#include "show.h"

int held(int n);

int main() {
  printf("%d\n", held(3));
  KEEP;
  return 0;
}
