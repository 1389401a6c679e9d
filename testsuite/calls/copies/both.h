#include <pcce.h>
#include <setjmp.h>

extern jmp_buf buffer;
extern volatile int sum;
extern "C" int take(int);

// A function that comes back keeps its calls in both files.
__attribute__((noinline)) inline int both(int n) {
  if (n <= 0)
    return 0;
  if (!_setjmp(buffer))
    take(n);
  return both(n - 1) + take(n + 1);
}
