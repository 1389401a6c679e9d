__attribute__((noinline)) static int third(int n) { return n / 3; }
int in_library(int (*back)(int), int n) { return n % 5 ? third(n) + back(n) : back(third(n)); }
