// Two calls of one function, whose values a test exchanges in the dictionary.
#include <pcce.h>
#include <stdlib.h>
#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")
NOINLINE static void take(void) { char token[4096]; if (pcce_token(token, 4096) >= 4096) abort(); KEEP; }
NOINLINE static void left(void) { take(); KEEP; }
NOINLINE static void right(void) { take(); KEEP; }
int main(void) { left(); right(); return 0; }
