int show(int), two(int);
int four(int n) { return show(n) + (n % 2 ? two(n) : 0); }
