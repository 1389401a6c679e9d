#include <cstdarg>
API int one(int n, Function f) { int r = inner(n, f) + cycle(2, f); r += inner(n + 1, f); KEEP; return r; }
API int logs(Function f, const char *what, ...) {
  va_list list; va_start(list, what);
  int n = va_arg(list, int); va_end(list);
  try { n += f(n); n += thrower(n); } catch (int) { n += show(what, n); }
  n += inner(n, f); KEEP; return n; }
API long sums(long a, long b, long c, long d, long e, long f, long g, Big big, Function h) {
  long r = a + b + c + d + e + f + g + big.word[8] + h(1) + inner(2, h); KEEP; return r; }
int cycle(int n, Function f) { int r = n ? inner(-n, f) : show("end", n); KEEP; return r; }
