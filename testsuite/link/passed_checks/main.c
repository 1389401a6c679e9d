#include "library.h"

static int depth;

/* The library calls this through a pointer, and it calls the library through pointers. */
static int back(int n) {
    int sum = 0;
    if (depth++ < 2)
        for (int i = 0; i < 3; i++)
            sum += table(i)(n - 1) + enter(back, n - 1);
    depth--;
    return sum;
}

int main(void) {
    Step *volatile step = table(2);
    return (enter(back, 3) + enter(step, 1) + step(2)) < 0;
}
