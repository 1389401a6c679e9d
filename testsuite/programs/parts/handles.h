#include <signal.h>
// Returns the former handler.
void (*handle(int number, int way, void (*handler)(int)))(int);
void handle_with_context(int number, void (*handler)(int, siginfo_t *, void *));
