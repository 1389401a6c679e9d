// A function that is left out seldom pushes, so its pushing call goes through a thunk; what it calls is in the trace.
#define NOINLINE __attribute__((noinline))
volatile int sum, which = 2;
int again(int n);
NOINLINE int first(int n) { return sum + n; }
NOINLINE int second(int n) { return sum - n; }
NOINLINE int skip_choose(int n) {
  switch (which) {
  case 0: first(n - 1); break;
  case 1: second(n - 1); break;
  case 2: again(n - 1);
  }
  return sum + 1;
}
NOINLINE int again(int n) {
  if (n <= 0) return sum;
  sum += skip_choose(n - 1);
  return sum + 1;
}
int main(void) {
  again(1);
  again(1);
  again(1);
  return 0;
}
