#include <pcce/fmt.h>

static void reload(int file) {
  if (file == 2) fmt::print("file {} is empty {}\n", file, pcce::token());
}

int main() {
  for (int file = 1; file <= 2; file++) reload(file);
  return 0;
}
