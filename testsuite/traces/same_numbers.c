// A thread with a signal handler, which becomes another program: each of the three counts its own events.
#include <signal.h>
#include <unistd.h>

#define APART __attribute__((noinline))

volatile int sum;

APART void first(void) { sum++; }
APART void second(void) { sum++; }
APART void handled(void) { sum++; }

static void handler(int signal) {
    (void)signal;
    handled();
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        second();
        second();
        second();
        return 0;
    }
    first();
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    execl("/proc/self/exe", "again", "again", (char *)0);
    return 1;
}
