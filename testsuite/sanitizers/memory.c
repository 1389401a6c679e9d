// What the runtime library writes is initialised for MemorySanitizer, and what the program left out stays reported.
// Each function has what others have left on the stack.
#include <pcce.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

NOINLINE static void use(char *text) { __asm__ volatile("" : : "r"(text) : "memory"); }
NOINLINE static void fill(void) {
  char local[16384];
  use(local);
}

// MemorySanitizer ends the program at a branch that depends on what is not initialised.
NOINLINE static void look(const char *what, const char *text) {
  int length = 0;
  while (text[length]) length++;
  printf("%s %s\n", what, length > 0 ? "text" : "empty");
}

static void on_signal(int signal) {
  (void)signal;
  char token[600];
  pcce_token(token, sizeof token);
  look("handler", token);
}

NOINLINE static void act(void) {
  struct sigaction action, old;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  fill();
  sigaction(SIGUSR1, &action, 0);
  raise(SIGUSR1);
  fill();
  sigaction(SIGUSR1, 0, &old);
  puts(old.sa_handler == on_signal ? "same" : "other");
  fill();
  signal(SIGUSR2, on_signal);
  raise(SIGUSR2);
}

NOINLINE static void take(void) {
  char token[600], at[600], thread[600], small[2];
  struct pcce_task task, copy;
  struct pcce_fiber fiber;
  fill();
  pcce_token(token, sizeof token);
  look("token", token);
  pcce_token(small, sizeof small);
  look("small", small);
  pcce_token_at(at, sizeof at, (void *)take, __builtin_frame_address(0));
  look("at", at);
  pcce_thread_token(thread, sizeof thread);
  look("thread", thread);
  pcce_task_capture(&task);
  copy = task;
  puts(copy.state[0] > 0 ? "task" : "no task");
  pcce_fiber_save(&fiber);
  puts(memcmp(&fiber, &fiber, sizeof fiber) == 0 ? "fiber" : "no fiber");
}

static void *in_thread(void *argument) {
  take();
  return argument;
}

int main(int count, char **arguments) {
  (void)arguments;
  setvbuf(stdout, 0, _IOLBF, 0);
  act();
  take();
  pthread_t thread;
  pthread_create(&thread, 0, in_thread, 0);
  pthread_join(thread, 0);
  if (count > 1) {
    struct sigaction action;
    action.sa_handler = on_signal;
    fill();
    sigaction(SIGUSR1, &action, 0);
    puts("not reported");
  }
  return 0;
}
