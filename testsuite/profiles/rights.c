// Allocates, calls, and dies if it has an argument. Says whether it runs with more rights than who started it.
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

static void *volatile kept;

__attribute__((noinline)) static void work(int n) {
    for (int i = 0; i < n; i++)
        kept = malloc(i);
}

int main(int argc, char **argv) {
    (void)argv;
    work(100);
    printf("%lu\n", getauxval(AT_SECURE));
    fflush(stdout);
    if (argc > 1)
        abort();
    return 0;
}
