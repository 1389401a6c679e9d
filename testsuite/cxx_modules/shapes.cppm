// A named module with a template, a virtual function and an initializer.
module;
#include "show.h"
export module shapes;
static volatile long sum;
extern "C++" NOINLINE inline void leaf(const char *name, long n) { sum = sum + n; SHOW(name); KEEP; }
extern "C++" { export struct Shape { virtual void draw(long n) { leaf("virtual", n); KEEP; } }; }
extern "C" NOINLINE void plain(long n) { leaf("plain", n); KEEP; }
export NOINLINE void draw(long n) { plain(n); KEEP; }
export template <class T> NOINLINE void each(long n, T f) { f(n); KEEP; }
struct Global { Global() { plain(1); KEEP; } } global;
