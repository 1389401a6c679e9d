int square(int n);
int half(int n) { return n / 2; }
int twice(int n, int (*f)(int)) { return f(n) + f(half(n)) + square(n); }
