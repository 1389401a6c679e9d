// PCCE_TOKEN and `<< pcce::token()` in C++.
//# Chain one: work(int) < main
//# Chain two: work(int) < main
//# Chain three: work(int) < main
//# Lines one: one < work
//# Lines two: two < work
//# Lines three: three < work
//# Flags: -Wall -Wextra -pedantic -Werror
#include <sstream>
#include <string>

#include "show.h"

NOINLINE static void work(int n) {
  show_line("one", PCCE_TOKEN, pcce_context()); //@one
  std::ostringstream line;
  line << n << ' ' << pcce::token() << std::flush; //@two
  show_line("two", line.str().substr(2).c_str(), pcce_context());
  const auto context = pcce::token(); //@three
  std::ostringstream() << "a temporary stream, as those of logging libraries " << context;
  show_line("three", context.c_str(), pcce_context());
}

int main() {
  work(1); //@work
  return 0;
}
