// A frame is taken off the chain too early.
NOINLINE static void recursive(int n) {
  if (n > 0) recursive(n - 1);
  if (n == 1) { void *top = __pcce_tls.top; __pcce_tls.top = 0; leaf(n); __pcce_tls.top = top; }
  KEEP;
}
int main(void) { recursive(4); puts("end"); return 0; }
