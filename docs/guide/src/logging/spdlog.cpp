#include <pcce.h>
#include <spdlog/spdlog.h>

static void reload(int file) {
  if (file == 2) spdlog::warn("file {} is empty {}", file, PCCE_TOKEN);
}

int main() {
  spdlog::set_pattern("[%l] %v");
  for (int file = 1; file <= 2; file++) reload(file);
  return 0;
}
