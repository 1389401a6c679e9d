int thrower(int n, int a, int b) {
  if (n == 4) throw (char)n;
  if (n % 2 == 0) throw n;
  int more[4] = {n, a, b, n};
  __asm__ volatile("" : : "r"(more) : "memory", "rsi", "rdi", "rcx", "rdx", "r8", "r9");
  return n + a + b;
}
