typedef int call(int);
extern "C" int back(int);
extern "C" int swallow(call *f, int n) {
  int result;
  try { result = f(n); } catch (...) { result = back(n); }
  return result + back(result);
}
struct Last { int n; ~Last() { back(n); } };
extern "C" int pass_on(call *f, int n) { Last last{n}; return f(n) + 1; }
