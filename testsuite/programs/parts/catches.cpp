// Catches what it calls, and goes on. Compiled by plain clang.
extern "C" int catches(void (*first)(int), void (*second)(int)) {
  int caught = 0;
  for (int n = 0; n < 3; n++) {
    try {
      first(n);
    } catch (...) {
      second(n);
      caught++;
    }
    second(n);
  }
  return caught;
}
