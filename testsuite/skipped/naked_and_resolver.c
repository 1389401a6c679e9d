// A naked function and a resolver, which the pass leaves as they are.
#include <pcce.h>
#include <stdio.h>
__attribute__((naked, noinline)) static int naked(void) { __asm__("mov $2, %eax\n ret"); }
static volatile int old;
static int chosen(void) { return 3; }
static int other(void) { return 4; }
static int (*resolve(void))(void) { return old ? other : chosen; }
int by_cpu(void) __attribute__((ifunc("resolve")));
int main(void) { printf("%d %d\n", naked() + by_cpu(), pcce_context() != 0); return 0; }
