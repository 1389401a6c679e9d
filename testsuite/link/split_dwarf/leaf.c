unsigned long pcce_context(void); int leaf(int n) __attribute__((noinline));
int leaf(int n) { int twice = 2 * n; pcce_context(); __asm__ volatile("" : "+r"(twice)); return twice; }
