#include <pcce.h>
#include <stdio.h>
int f(int n) { printf("first %s\n", PCCE_TOKEN); return n; }
