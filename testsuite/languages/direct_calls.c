// A diamond of direct calls: most of its edges have additions.
#include <pcce.h>
#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")
volatile int sum;
// With a context in it, for it would have no updates otherwise.
NOINLINE static void leaf(int n) { sum += n; if (n == 7) pcce_context(); KEEP; }
NOINLINE static void a(int n) { leaf(n); KEEP; leaf(n + 1); KEEP; sum++; leaf(n + 2); KEEP; }
NOINLINE static void b(int n) { a(n); KEEP; sum++; a(n + 1); KEEP; leaf(n); KEEP; }
int main(int argc, char **argv) { (void)argv; a(argc); b(argc); sum++; b(argc + 1); leaf(argc); return sum; }
