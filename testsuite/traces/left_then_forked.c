// `left` leaves its activation to `forks`, which forks. How it does so is a macro.
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline))

volatile int sum;

APART int leaf(int n) { return sum += n; }

APART int forks(int n) {
    sum++;
    pid_t child = fork();
    if (child == 0)
        leaf(n);
    else
        waitpid(child, 0, 0);
    return sum;
}

int (*volatile pointer)(int) = forks;

APART int left(int n) {
    sum++;
    __attribute__((musttail)) return CALLED(n);
}

APART int outer(int n) {
    int result = left(n);
    return leaf(result);
}

int main(int argc, char **argv) { return (void)argv, outer(argc) == 0; }
