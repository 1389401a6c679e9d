extern "C" unsigned through(unsigned (*f)(int, int), int n, int s) { return f(n, s) + 1; }
extern "C" unsigned caught(unsigned (*f)(int, int), unsigned (*g)(int, int), int n, int s) {
  unsigned r = 0;
  try { r = f(n, s); } catch (...) { r = 5; }
  return r + g(n, s);
}
