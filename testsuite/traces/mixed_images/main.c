int in_library(int (*)(int), int);
__attribute__((noinline)) static int half(int n) { return n / 2; }
static int back(int n) { return n % 3 ? half(n) : n; }
int main(void) { int s = 0; for (int i = 0; i < 500; i++) s += in_library(back, i) + half(i); return s < 0; }
