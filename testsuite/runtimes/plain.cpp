#include "header.h"
int plain(int n) { return inlined(n); }
int weak(int n) { int r = shows(n); __asm__ volatile(""); return r; }
