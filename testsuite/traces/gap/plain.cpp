extern "C" void log(int) {}
extern "C" int catches(void (*f)(int), int n) { try { f(n); } catch (...) { return 1; } return 0; }
