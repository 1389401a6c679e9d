// Calls that labels of the data flow sanitizer pass through.
#include <sanitizer/dfsan_interface.h>
#include "show.h"
static volatile long sum;
NOINLINE void leaf(long n) { sum += n; SHOW("leaf"); KEEP; }
NOINLINE void by_pointer(void (*f)(long), long n) { f(n); KEEP; }
int main(void) {
    long n = 1;
    dfsan_set_label(1, &n, sizeof n);
    leaf(n); KEEP;
    by_pointer(leaf, n); KEEP;
    printf("%d %d\n", dfsan_get_label(sum), dfsan_get_label(2));
    return 0;
}
