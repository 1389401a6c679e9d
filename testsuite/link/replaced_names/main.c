#include <pcce.h>
#include <stdio.h>
int g(int n);
int f(int n);
int alt(int n) { printf("alt %s\n", PCCE_TOKEN); return n; }
int __wrap_f(int n) { printf("wrap %s\n", PCCE_TOKEN); return n; }
int e(int n) { f(1); return g(n); }
int main(void) { e(3); f(0); return g(2) == 0; }
