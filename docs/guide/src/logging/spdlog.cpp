#include <pcce/spdlog.h>

static void reload(int file) {
  if (file == 2) spdlog::warn("file {} is empty", file);
}

int main() {
  pcce::with_tokens(spdlog::default_logger());
  spdlog::set_pattern("[%l] %v");
  for (int file = 1; file <= 2; file++) reload(file);
  return 0;
}
