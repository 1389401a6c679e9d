// Crashes below functions with frames of different sizes, on a way that the argument chooses.
#include <stdlib.h>
#define FRAME(bytes) char frame[bytes]; __asm__ volatile("" : : "r"(frame) : "memory")
#define KEEP __asm__ volatile("" ::: "memory")
#define NOINLINE __attribute__((noinline)) static
NOINLINE void rec(int n, int way);
NOINLINE void bottom(void) { KEEP; *(volatile int *)8 = 1; KEEP; rand(); KEEP; }
NOINLINE void a(int n, int way) { FRAME(16); if (n) rec(n - 1, way >> 1); else bottom(); KEEP; }
NOINLINE void b(int n, int way) { FRAME(300); if (n) rec(n - 1, way >> 1); else bottom(); KEEP; }
NOINLINE void rec(int n, int way) { FRAME(40); if (way & 1) b(n, way); else a(n, way); KEEP; }
int main(int count, char **arguments) { rec(count, atoi(arguments[1])); return 0; }
