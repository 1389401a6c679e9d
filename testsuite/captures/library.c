// A program, and with LIBRARY its library, which calls it back.
#include <pcce.h>
#include <stdlib.h>
#define KEEP __asm__ volatile("" ::: "memory")
#ifdef LIBRARY
void far(void (*call)(void)) { call(); KEEP; }
#else
void far(void (*call)(void));
static void take(void) { char token[4096]; if (pcce_token(token, 4096) >= 4096) abort(); KEEP; }
int main(void) { take(); far(take); return 0; }
#endif
