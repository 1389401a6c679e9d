int even(long);
int (*next)(long);
__attribute__((noinline)) int odd(long n) { return even(n - 1); }
__attribute__((noinline)) int through(long n) { return next(n - 1); }
