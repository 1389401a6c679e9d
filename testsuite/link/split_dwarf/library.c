int leaf(int);
static inline int inner(int k) { return leaf(k) * 2; }
static inline int outer(int k) { return inner(k) + leaf(k + 1); }
__attribute__((noinline)) int deep(int n) { return outer(n) + 1; }
__attribute__((noinline)) int work(int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += outer(i) + deep(i);
  return sum;
}
