// Tables that are merged and lose their names. A variadic virtual function, reached by a thunk with a tail call.
#include <pcce.h>
#define NOINLINE __attribute__((noinline))
struct Entry { const char *name, *file; int line; };
extern "C" { extern __thread int depth; extern __thread Entry entries[]; void note(const char *, unsigned long long); }
static inline __attribute__((always_inline)) void leave(int *found) { depth = *found; }
#define IN __attribute__((cleanup(leave))) int found = depth; \
  do { \
    int d = depth; \
    if (d < 64) { entries[d].name = __func__; entries[d].file = __FILE__; entries[d].line = 0; } \
    depth = d + 1; \
  } while (0)
#define KEEP do { int d = depth; __asm__ volatile("" ::: "memory"); if (d <= 64) entries[d - 1].line = __LINE__; } while (0)
#define SAY do { char text[512]; KEEP; pcce_token(text, sizeof text); note(text, pcce_context()); } while (0)
struct A { int a = 1; virtual ~A() {} };
struct V {
  int v = 3;
  virtual void h(int n) { IN; SAY; }
  virtual void vv(int n, ...) { IN; SAY; }
  virtual ~V() {}
};
struct C : A, virtual V {
  void h(int n) override { IN; SAY; }
  void vv(int n, ...) override { IN; SAY; KEEP; h(n); KEEP; }
};
struct D : C, virtual V {
  void h(int n) override { IN; SAY; KEEP; C::h(n); }
  void pm(int n) { IN; KEEP; vv(n, 1, 2, 3.0); KEEP; }
};
NOINLINE static void use(V *v) { IN; KEEP; v->h(4); KEEP; v->vv(2, 5); KEEP; }
template <class T> NOINLINE static void call(T *t, void (T::*p)(int)) { IN; KEEP; (t->*p)(3); KEEP; }
int main(int, char **) { IN; KEEP; D d; KEEP; use(&d); KEEP; call<D>(&d, &D::pm); KEEP; return 0; }
