#include <pcce.h>
#include <stdio.h>
int two(int), three(int, int (*)(int)), four(int), five(int);
__attribute__((noinline)) int show(int n) { puts(PCCE_TOKEN); return n + 1; }
__attribute__((noinline)) static int same(int n) { return show(n) + 1; }
__attribute__((noinline)) static int own(int n) { return two(n) + 1; }
int main(void) { return own(1) + three(5, show) + three(6, same) + four(7) + five(1) == 74 ? 0 : 1; }
