// Calls that the runtime's routines push for: arguments in all registers, results of all kinds, variable arguments,
// recursion, code that is not instrumented below, tail calls, exceptions, longjmp, signals.
//# Chain pair: longs < <push_longs> < results < main
//# Chain doubles: doubles < <push_doubles> < results < main
//# Chain mixed: mixed < <relative_mixed> < results < main
//# Chain wide: wide < <push_wide> < results < main
//# Chain long-double: long_double < <push_long_double> < results < main
//# Chain complex: complex < <relative_complex> < results < main
//# Chain single: single < <push_single> < results < main
//# Chain vector: vector < <relative_vector> < results < main
//# Chain memory: memory < <push_memory> < results < main
//# Chain arguments: arguments < <push_arguments> < results < main
//# Chain arguments: arguments < <relative_arguments> < results < main
//# Chain variable: variable < <push_variable> < results < main
//# Chain variable: variable < <relative_variable> < results < main
//# Chain recursion: recurse < <push_recurse> < recurse < <relative_recurse> < recurse < <push_recurse> < recurse < main
//# Chain between: recurse < between < recurse < <relative_recurse> < recurse < <push_recurse> < recurse < main
//# Chain sorted: compare < <push_qsort> < sorts < main
//# Chain left: left < <push_leaves> < main
//# Chain thrown: throws < <push_throws> < catches < main
//# Chain caught: catches < main
//# Chain thrown: throws < <relative_throws> < catches < main
//# Chain caught: catches < main
//# Chain jump: jumps < <push_jumps> < returns_twice < main
//# Chain back: returns_twice < main
//# Chain jump: jumps < <relative_jumps> < returns_twice < main
//# Chain back: returns_twice < main
//# Chain handler: handler < <signal> < ... < main
//# Chain end: main
//# Shapes
#include "show.h"
#include "parts/push_stubs.h"
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <xmmintrin.h>

#define BOTH(f) PUSH_STUB(push_##f, f, __pcce_push) PUSH_STUB(relative_##f, f, __pcce_push_relative)
// A function, and the two stubs that call it.
#define CALLED(result, f, ...)                                                                        \
  BOTH(f)                                                                                             \
  extern "C" __attribute__((used, noinline)) result f(__VA_ARGS__);                                   \
  extern "C" result push_##f(__VA_ARGS__);                                                            \
  extern "C" result relative_##f(__VA_ARGS__);                                                        \
  extern "C" __attribute__((used, noinline)) result f(__VA_ARGS__)

struct Longs { long a, b; };
struct Doubles { double a, b; };
struct Mixed { long a; double b; };
struct Large { long values[5]; };
typedef long double Long;
typedef _Complex long double Complex;
typedef __int128 Wide;

CALLED(Longs, longs, long a) { SHOW("pair"); return {a, a + 1}; }
CALLED(Doubles, doubles, double a) { SHOW("doubles"); return {a, a + 1}; }
CALLED(Mixed, mixed, long a, double b) { SHOW("mixed"); return {a + 1, b + 1}; }
CALLED(Wide, wide, Wide a) { SHOW("wide"); return a * 3; }
CALLED(Long, long_double, int a) { SHOW("long-double"); return a + 0.25L; }
CALLED(Complex, complex, float a) { SHOW("complex"); return a + 2.0iL; }
CALLED(float, single, float a) { SHOW("single"); return a * 2; }
CALLED(__m128, vector, __m128 a, __m128 b) { SHOW("vector"); return a + b; }
CALLED(Large, memory, long a) { SHOW("memory"); return {{a, a + 1, a + 2, a + 3, a + 4}}; }

CALLED(double, arguments, long a, int b, const char *c, char d, unsigned long e, short f, double g, float h, double i,
       double j, double k, double l, double m, double n) {
  SHOW("arguments");
  return a + b + (c[0] - '0') + d + e + f + g + h + i + j + k + l + m + n;
}
CALLED(double, variable, int count, ...) {
  va_list list;
  va_start(list, count);
  double sum = 0;
  for (int i = 0; i < count; i++) { sum += va_arg(list, int); sum += va_arg(list, double); }
  va_end(list);
  SHOW("variable");
  return sum;
}

NOINLINE static void results() {
  Longs pair = push_longs(7);
  Doubles two = push_doubles(1.5);
  Mixed mixed = relative_mixed(3, 4.5);
  Wide wide = push_wide((Wide)1 << 100);
  Long real = push_long_double(3);
  Complex number = relative_complex(1.5f);
  float single = push_single(4);
  __m128 vector = relative_vector(__m128{1, 2, 3, 4}, __m128{10, 20, 30, 40});
  Large memory = push_memory(9);
  double sum = push_arguments(1, -2, "7", 'a', 5, -6, 7, 8, 9, 10, 11, 12, 13, 14.5);
  double other = relative_arguments(1, -2, "7", 'a', 5, -6, 7, 8, 9, 10, 11, 12, 13, 14.5);
  double variable = push_variable(2, 1, 2.5, 3, 4.5);
  double more = relative_variable(1, 8, 0.5);
  printf("%ld %ld %g %g %ld %g %d\n", pair.a, pair.b, two.a, two.b, mixed.a, mixed.b, (int)(wide >> 100));
  printf("%Lg %Lg %Lg %g\n", real, __real__ number, __imag__ number, single);
  printf("%g %g %g %g %ld %ld\n", vector[0], vector[1], vector[2], vector[3], memory.values[0], memory.values[4]);
  printf("%g %g %g %g\n", sum, other, variable, more);
}

CALLED(int, recurse, int n, const char *name);
NOINLINE static int between(int n, const char *name) { int r = recurse(n, name); KEEP; return r; }
int recurse(int n, const char *name) {
  int r = 0;
  if (n == 0) SHOW(name);
  else if (*name == 'b' && n == 1) r = between(0, name);
  else r = n % 2 ? push_recurse(n - 1, name) : relative_recurse(n - 1, name);
  KEEP;
  return r + n;
}

extern "C" {
PUSH_STUB(push_qsort, qsort, __pcce_push)
void push_qsort(void *, size_t, size_t, int (*)(const void *, const void *));
static int compare(const void *x, const void *y) {
  SHOW("sorted");
  KEEP;
  return *static_cast<const int *>(x) - *static_cast<const int *>(y);
}
}
NOINLINE static void sorts() {
  int values[2] = {2, 1};
  push_qsort(values, 2, sizeof values[0], compare);
  printf("%d %d\n", values[0], values[1]);
}

NOINLINE static int left(int n) { SHOW("left"); KEEP; return n + 1; }
CALLED(int, leaves, int n) { [[clang::musttail]] return left(n); }

struct Thrown { int value; };
CALLED(void, throws, int n) { SHOW("thrown"); throw Thrown{n}; }
NOINLINE static void catches() {
  try { push_throws(4); } catch (Thrown &thrown) { SHOW("caught"); printf("%d\n", thrown.value); }
  try { relative_throws(5); } catch (Thrown &thrown) { SHOW("caught"); printf("%d\n", thrown.value); }
}

static jmp_buf away;
CALLED(void, jumps, int n) { SHOW("jump"); longjmp(away, n); }
NOINLINE static void returns_twice() {
  if (setjmp(away) == 0) push_jumps(1);
  SHOW("back");
  if (setjmp(away) == 0) relative_jumps(1);
  SHOW("back");
}

static void handler(int) { SHOW("handler"); KEEP; }
CALLED(void, raises, int signal) { raise(signal); KEEP; }

int main() {
  signal(SIGUSR1, handler);
  results();
  printf("%d\n", recurse(3, "recursion"));
  printf("%d\n", recurse(3, "between"));
  sorts();
  printf("%d\n", push_leaves(1));
  catches();
  returns_twice();
  push_raises(SIGUSR1);
  relative_raises(SIGUSR1);
  SHOW("end");
  return 0;
}
