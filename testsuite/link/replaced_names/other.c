#include <pcce.h>
#include <stdio.h>
int f(int n) { printf("own %s\n", PCCE_TOKEN); return n; }
int g(int n) { f(n); return f(n) + 1; }
