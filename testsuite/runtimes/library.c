#include <pcce.h>
#include <stdio.h>
__attribute__((noinline)) static int inner(int n) { dprintf(1, "%s\n", PCCE_TOKEN); __asm__ volatile(""); return n; }
__attribute__((noinline)) int lib(int n, int (*back)(int)) {
  int r = inner(n); __asm__ volatile(""); r += back(n); __asm__ volatile(""); return r; }
