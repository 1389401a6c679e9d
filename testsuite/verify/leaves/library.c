#include <pcce.h>
#include <stdio.h>
int library(int n) { puts(PCCE_TOKEN); return n; }
