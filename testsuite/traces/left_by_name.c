// Functions that leave their activations by tail calls to others.
#define NOINLINE __attribute__((noinline))
NOINLINE static int leaf(int n) {
  __asm__ volatile("");
  return n;
}
NOINLINE static int last(int n) { return leaf(n) + 1; }
NOINLINE static int second(int n) { __attribute__((musttail)) return last(n + 1); }
NOINLINE static int first(int n) { __attribute__((musttail)) return second(n + 1); }
int main(void) { return first(1) == 0; }
