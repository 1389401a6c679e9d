int half(int n) { return n / 2; }
int last(int n) { return n; }
__attribute__((noinline)) static int down(int n) { return n > 0 ? last(n - 1) : 1; }
__attribute__((noinline)) int shown(int n) { return n > 2 ? down(n) + 1 : down(n); }
static int own(int n) __attribute__((alias("shown")));
int twice(int n, int (*f)(int)) {
  int s = 0;
  for (int i = 0; i < n; i++) s += i & 1 ? own(i) : f(shown(i));
  return s;
}
