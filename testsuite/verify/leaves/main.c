int library(int), first(int), second(int);
int (*table[])(int) = {library, first, second};
static volatile int zero;
__attribute__((noinline)) int first(int n) { return n % 3 ? second(n - 1) + zero : table[n % 2](n - 1); }
__attribute__((noinline)) int second(int n) { return n <= 0 ? library(n) : first(n - 1) + zero; }
int main(void) { int sum = 0; for (int i = 0; i < 13; i++) sum += first(i); return sum * zero; }
