#include <pcce.h>
#include <stdio.h>
int table(int);
#define KEEP __asm__ volatile("" ::: "memory")
__attribute__((noinline)) int hidden(int n) { puts(PCCE_TOKEN); return n; }
__attribute__((noinline)) int caller(int n) { int r = hidden(n); KEEP; return r; }
int main(void) { int r = caller(0) + table(0); KEEP; return r; }
