unsigned long pcce_context(void);
__attribute__((noinline)) int leaf(int n) {
  int twice = 2 * n;
  pcce_context();
  __asm__ volatile("" : "+r"(twice));
  return twice;
}
