#include <pcce.h>
#include <stdio.h>
int around(int (*f)(int), int n), even(int n);
static volatile int sum;
__attribute__((noinline)) int note(int n) { puts(PCCE_TOKEN); return n; }
__attribute__((noinline)) int odd(int n) { note(n); return n <= 0 ? n : even(n - 1); }
__attribute__((noinline)) int even(int n) { note(n); return n <= 0 ? n : odd(n - 1); }
int main(void) { for (int i = 0; i < 3; i++) sum += around(even, i); return sum != 0; }
