#include <pcce.h>
#include <stdio.h>
__attribute__((visibility("hidden"))) void handle(int n);
void show(const char *what) { char token[4096]; pcce_token(token, sizeof token); printf("%s %s\n", what, token); }
__attribute__((noinline)) static void first(void) { handle(1); __asm__ volatile(""); }
__attribute__((noinline)) static void second(void) { first(); handle(2); __asm__ volatile(""); }
void outside(void);
void start(void) { second(); first(); outside(); second(); __asm__ volatile(""); }
