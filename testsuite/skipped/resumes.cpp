// A program with an `_Unwind_Resume` of its own, as those that watch exceptions have.
#include <cstdio>
#include <dlfcn.h>

static int resumed;

extern "C" __attribute__((noinline)) void _Unwind_Resume(void *exception) {
  if (++resumed > 10)
    __builtin_trap();
  static auto next = (void (*)(void *))dlsym(RTLD_NEXT, "_Unwind_Resume");
  next(exception);
  __builtin_unreachable();
}

struct D {
  ~D() { puts("~D"); }
};

__attribute__((noinline)) static void throws() {
  D d;
  throw 5;
}

int main() {
  try {
    throws();
  } catch (int) {
    puts("caught");
  }
  printf("resumed %d\n", resumed);
  return 0;
}
