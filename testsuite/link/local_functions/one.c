int walk(int);
static int step(int n) { return walk(n - 1) + 2; }
static int jump(int n) { return walk(n - 2) + 3; }
int (*of_one[2])(int) = {step, jump};
