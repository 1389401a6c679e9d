#include <pcce.h>
void add(int n), far(int n);
static void same(int n) { add((int)(pcce_context() & 1) * 0 + n); __asm__ volatile("" ::: "memory"); }
static void near(int n) { same(n + 1); __asm__ volatile("" ::: "memory"); }
__attribute__((weak)) void add(int n) { (void)n; }
void far(int n) { near(n); __asm__ volatile("" ::: "memory"); }
void other(int n) { same(n); same(n + 1); __asm__ volatile("" ::: "memory"); }
void (*volatile ways[3])(int) = {far, near, same};
