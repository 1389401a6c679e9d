// Stands in front of the programs that break the state behind the back of the encoding.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
struct tls { unsigned long id; void *top; };
extern _Thread_local struct tls __pcce_tls __attribute__((tls_model("initial-exec")));
#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")
static int never(const void *a, const void *b) { return a < b; }
// It calls what may call back: not silent.
NOINLINE static void leaf(int n) { printf("leaf %d\n", n); qsort(&n, 0, sizeof n, never); KEEP; }
__attribute__((unused)) NOINLINE static void middle(int n) { leaf(n); KEEP; leaf(n + 1); KEEP; }
