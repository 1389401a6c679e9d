int show(int), other(int);
int two(int n) { if (n > 2) return show(n); return show(n + 1); }
int three(int n, int (*f)(int)) { return f(n); }
int four(int n) { return n % 2 ? other(n) : show(n); }
