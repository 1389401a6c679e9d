// Without the pass there is no context, and exceptions unwind through the runtime.
#include <pcce.h>
#include <iostream>
#include <sstream>
#include <stdexcept>
int main() {
  char buffer[128] = "untouched";
  try {
    throw std::runtime_error("thrown");
  } catch (const std::exception &e) {
    std::cout << e.what() << ' ' << pcce_token(buffer, sizeof buffer) << " '" << buffer << "' " << pcce_context() << '\n';
  }
  std::ostringstream line;
  line << pcce::token();
  return !line.str().empty();
}
