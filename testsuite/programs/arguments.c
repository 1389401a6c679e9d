// Ways of passing: variadic functions, big structures by value and as results, variable-length arrays, alloca.
//# Chain variadic: leaf < variadic < main
//# Chain sret: leaf < make < main
//# Chain byval: leaf < take < main
//# Chain vla: leaf < array < main
//# Chain alloca: leaf < stack < recursive < recursive < main
//# Chain after: leaf < main
//# Fixed after
#include "show.h"
#include <alloca.h>
#include <stdarg.h>

struct big {
  long values[40];
};

NOINLINE static void leaf(const char *name) { SHOW(name); KEEP; }

NOINLINE static long variadic(int count, ...) {
  va_list list;
  va_start(list, count);
  long sum = 0;
  for (int i = 0; i < count; i++) sum += i % 2 ? (long)va_arg(list, double) : va_arg(list, long);
  va_end(list);
  leaf("variadic");
  return sum;
}

NOINLINE static struct big make(long seed) {
  struct big b;
  for (int i = 0; i < 40; i++) b.values[i] = seed * i;
  leaf("sret");
  return b;
}

NOINLINE static long take(struct big b, int i) {
  b.values[i] += 1;
  leaf("byval");
  return b.values[i] + b.values[39];
}

NOINLINE static long array(int n) {
  volatile long values[n];
  for (int i = 0; i < n; i++) values[i] = i * i;
  leaf("vla");
  return values[n - 1];
}

NOINLINE static long stack(int n) {
  volatile char *memory = alloca((size_t)n);
  memory[n - 1] = (char)n;
  leaf("alloca");
  return memory[n - 1];
}

NOINLINE static long recursive(int n, int depth) {
  char room[n];
  memset(room, depth, (size_t)n);
  long sum = depth > 0 ? recursive(n * 2, depth - 1) : stack(n);
  KEEP;
  return sum + room[n - 1];
}

int main(void) {
  printf("%ld\n", variadic(6, 1L, 2.0, 3L, 4.0, 5L, 6.5));
  // Direct calls are distinguished also if the function's address is taken.
  printf("%ld %ld\n", variadic(0), variadic(1, 1L));
  long (*volatile pointer)(int, ...) = variadic;
  printf("%ld\n", pointer(2, 1L, 2.0));
  struct big b = make(3);
  printf("%ld\n", take(b, 5));
  printf("%ld\n", array(17));
  printf("%ld\n", recursive(33, 1));
  leaf("after");
  return 0;
}
