#include <pcce.h>
#include <stdio.h>
#define API extern "C" __attribute__((visibility("default"), noinline))
#define INNER __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")
struct Big { long word[9]; };
typedef int (*Function)(int);
API int one(int, Function);
API int logs(Function, const char *, ...);
API long sums(long, long, long, long, long, long, long, Big, Function);
API Function choose(int);
API int throws(int);
API int passes(int, Function);
API int leaves(int, Function);
int cycle(int, Function);
int thrower(int);
int inner(int, Function);
INNER static int show(const char *what, int n) { printf("%s %s\n", what, PCCE_TOKEN); KEEP; return n; }
