// Calls through the runtime's routines that push: of functions that call and push themselves, of silent ones, of the C
// library's, in recursion. The pass leaves these calls alone (`pushed.no-callback`).
#include "step.h"
#include "../programs/parts/push_stubs.h"

volatile int sum;
static char buffers[2][256];
PUSH_SITE
void __pcce_push_site(void);
// Through a pointer, so that what it has pushed names the place and nothing else.
static void (*volatile site)(void) = __pcce_push_site;

#define CALLED(result, f, ...)                           \
  SITE_STUB(push_##f, f, __pcce_push)                    \
  SITE_STUB(relative_##f, f, __pcce_push_relative)       \
  __attribute__((used, noinline)) result f(__VA_ARGS__); \
  result push_##f(__VA_ARGS__);                          \
  result relative_##f(__VA_ARGS__);                      \
  result f(__VA_ARGS__)

CALLED(void, leaf, int n) { sum += n; }
NOINLINE static int a(int n) { leaf(n); KEEP; sum++; return n + sum; }
CALLED(int, both, int n) { a(n); KEEP; leaf(n + 1); KEEP; return (int)pcce_context() + n; }
SITE_STUB(push_memcpy, memcpy, __pcce_push)
SITE_STUB(relative_memset, memset, __pcce_push_relative)
void *push_memcpy(void *, const void *, size_t);
void *relative_memset(void *, int, size_t);

CALLED(int, recursive, int n) {
  int r = a(n);
  KEEP;
  if (n > 0 && n % 2) { site(); r += push_recursive(n - 1); KEEP; }
  if (n > 0 && n % 2 == 0) { site(); r += relative_recursive(n - 1); KEEP; }
  r += a(n + 1);
  KEEP;
  return r;
}

// Called at two places, so that its id is not 0.
NOINLINE static void calls(int n) {
  site(); sum += push_both(n); KEEP;
  site(); push_leaf(n); KEEP;
  site(); sum += relative_both(n); KEEP;
  site(); relative_leaf(n); KEEP;
  site(); relative_memset(buffers[0], n, sizeof buffers[0]); KEEP;
  site(); push_memcpy(buffers[1], buffers[0], (size_t)sum % 200); KEEP;
}
NOINLINE static void work(int n) {
  calls(n); KEEP;
  site(); sum += push_recursive(4); KEEP;
  calls(n + 1); KEEP;
  site(); sum += relative_recursive(3); KEEP;
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc == 1) {
    step_begin();
    STEP_ON;
  }
  for (int i = 0; i < 5; i++) { work(argc); KEEP; }
  if (argc == 1) {
    STEP_OFF;
    step_end();
  }
  return 0;
}
