extern "C" int shows(int);
inline __attribute__((noinline)) int inlined(int n) { int r = shows(n); __asm__ volatile(""); return r; }
int weak(int);
