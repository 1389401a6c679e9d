// Installs handlers of the program, in each way that there is. Not instrumented.
#define _GNU_SOURCE
#include "handles.h"
#include <signal.h>
#include <stddef.h>

void (*handle(int number, int way, void (*handler)(int)))(int) {
  struct sigaction action = {.sa_handler = handler}, old;
  switch (way) {
    case 0: return signal(number, handler);
    case 1: sigaction(number, &action, &old); return old.sa_handler;
    default: return sysv_signal(number, handler);
  }
}

void handle_with_context(int number, void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(number, &action, NULL);
}
