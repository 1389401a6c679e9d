#include "library.h"

#define HIDDEN __attribute__((visibility("hidden"), noinline))

HIDDEN void show(int n);
HIDDEN int first_step(int n);

HIDDEN int far_step(int n) {
    show(n);
    return n > 0 ? first_step(n - 1) + table(n)(n - 1) : 0;
}
