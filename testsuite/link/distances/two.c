__asm__(".section .rodata\n.globl rel\nrel: .long hidden - rel\n.text");
extern const int rel[1];
int table(int n) { n += ((int (*)(int))((const char *)rel + rel[0]))(n);
  __asm__ volatile("" ::: "memory"); return n; }
