#include "library.h"
#include <pcce.h>
#include <stdio.h>

#define HIDDEN __attribute__((visibility("hidden"), noinline))

HIDDEN int far_step(int n);

HIDDEN void show(int n) {
    char token[512];
    pcce_token(token, sizeof token);
    printf("%d %s\n", n, token);
}

static __attribute__((noinline)) int near_step(int n) {
    show(n);
    return n > 0 ? far_step(n - 1) + 1 : 0;
}

HIDDEN int first_step(int n) {
    show(n);
    return near_step(n) + (n > 1 ? first_step(n - 2) : 0);
}

Step *table(int number) {
    static Step *const steps[] = {near_step, first_step, far_step};
    return steps[number % 3];
}

int enter(Step *step, int n) { return near_step(n) + step(n) + first_step(n) + far_step(n); }
