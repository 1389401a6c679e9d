// The other module of calls.c.
#include "calls.h"
static volatile long sum;
void part_leaf(long n) { sum += n; if (n % 3 == 0) SHOW("part"); KEEP; }
void part_middle(long n) { part_leaf(n); KEEP; part_leaf(n + 1); KEEP; }
NOINLINE static void within(long n, action *f) { f(n); KEEP; part_middle(n); KEEP; }
void part_calls(long n, action *f) { within(n, f); KEEP; within(n + 1, part_middle); KEEP; f(n + 2); KEEP; }
NOINLINE static long spin(long n) { for (long i = 0; i < 200; i++) sum += i ^ n; return sum; }
long part_spins(long n) { long all = spin(n); KEEP; return all + spin(n + 1); }
