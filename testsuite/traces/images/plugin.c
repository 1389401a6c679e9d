int half(int n);
__attribute__((noinline)) static int inner(int n, int (*f)(int)) {
  return n ? f(n) + inner(n - 1, f) + half(n) : 0;
}
int each(int n, int (*f)(int)) { return inner(n, f) + 1; }
