INNER static int chosen(int n) { int r = show("chosen", n) + inner(n, 0); KEEP; return r; }
API Function choose(int n) { return n ? chosen : throws; }
int inner(int n, Function f) { int r = n < 0 ? cycle(-n - 1, f) : show("inner", n); if (f) r += f(n); KEEP; return r; }
int thrower(int n) { if (n) throw n; KEEP; return n; }
API int throws(int n) { int r = show("throws", n) + thrower(n); KEEP; return r; }
API int passes(int n, Function f) { int r = 0; try { r = f(n); } catch (char) { r = 1; }
  r += show("passed", n); KEEP; return r; }
API int leaves(int n, Function f) { n += show("leaves", n); __attribute__((musttail)) return passes(n, f); }
