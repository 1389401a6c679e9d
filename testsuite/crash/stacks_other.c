// Has a function with the name of one in the other file.
extern volatile int sum;
int other(int n);

__attribute__((noinline)) static int helper(int n) {
  sum++;
  *(volatile int *)0 = n;
  return n;
}

int other(int n) {
  sum++;
  return helper(n + 2);
}
