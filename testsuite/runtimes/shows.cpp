#include "header.h"
#include <pcce.h>
#include <stdio.h>
int shows(int n) { puts(PCCE_TOKEN); __asm__ volatile(""); return n; }
__attribute__((weak)) int weak(int n) { int r = shows(n); __asm__ volatile(""); return r; }
extern "C" int entry(int n) { int r = inlined(n); __asm__ volatile(""); r += weak(n); __asm__ volatile(""); return r; }
