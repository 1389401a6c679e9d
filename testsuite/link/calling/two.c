int show(int n);
__attribute__((noinline)) static int down(int n) { return n ? down(n - 1) + show(n) : 0; }
int two(int n, int (*f)(int)) { return f(n) + down(n) + show(n - 3); }
