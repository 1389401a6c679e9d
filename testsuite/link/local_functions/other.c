int walk(int);
/* Another line. */
static int step(int n) { return walk(n - 1) + 2; }
int (*of_other[2])(int) = {step, step};
