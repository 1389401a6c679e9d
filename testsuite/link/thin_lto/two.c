int show(int);
__attribute__((noinline)) static int same(int n) { return show(n) + 2; }
int two(int n) { return same(n) + show(n + 1); }
int three(int n, int (*f)(int)) { return f(n) + same(n); }
