// A child goes on in functions that were active where it was forked, or in those that they call by name: no function
// is entered from outside. `program ROUNDS WAY`.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline))

volatile long sum;

APART void tick(void) { sum++; }

APART int odd(unsigned n) { return n * 2654435761u >> 7 & 1; }

APART void work(long rounds) {
    for (long i = 0; i < rounds; i++)
        if (odd(i))
            tick();
}

APART void child(long rounds) {
    work(rounds);
    _exit(0);
}

APART int start(char way) {
    switch (way) {
    case 'f':
        return fork();
    case '_':
        return _Fork();
    case 's':
        return syscall(SYS_fork);
    default:
        return 0;
    }
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 1;
    int forked = start(argv[2][0]);
    if (forked == 0)
        child(atol(argv[1]));
    waitpid(forked, 0, 0);
    return 0;
}
