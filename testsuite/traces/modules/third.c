#include <setjmp.h>

int first(int n);
int back_from_skipped(int n);
static jmp_buf place;

__attribute__((visibility("hidden"))) int hidden(int n) {
  return first(n) - 1;
}
/* Left out of the trace. */
int skipped(int n) {
  return back_from_skipped(n) + first(n);
}
int jumper(int n) {
  if (first(n) > 0) longjmp(place, n);
  return 0;
}
int jumps(int n) {
  int came = setjmp(place);
  if (came) return first(came);
  return jumper(n);
}
