int show(int);
int five(int n) { return n < 4 ? five(n + 1) + 1 : show(n); }
