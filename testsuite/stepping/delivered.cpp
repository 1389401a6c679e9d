// Interrupts the program after each instruction of what delivers exceptions and jumps, and prints how many calls of
// `climb` are active, the token of the point, the one that the handler takes for itself, and its number. No unwinder is
// asked: libgcc's own follows what it has half overwritten.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <pcce.h>
#include <pthread.h>
#include <stdexcept>
#include <string>

#include "../src/machine/stepping.h"

static volatile int active;
static std::string points;

static void trap(int, siginfo_t *, void *context) {
  char point[2048], own[2048], line[4200];
  size_t length = pcce_token_at(point, sizeof point, INSTRUCTION(context), STACK_POINTER(context));
  if (length == 0 || length >= sizeof point) __builtin_abort();
  length = pcce_token(own, sizeof own);
  if (length == 0 || length >= sizeof own) __builtin_abort();
  unsigned long number = pcce_context();
  points.append(line, snprintf(line, sizeof line, "%d %s %s %lu\n", active, point, own, number));
}

struct Active {
  Active() { active = active + 1; }
  ~Active() { active = active - 1; }
};

__attribute__((noinline)) static void climb(int depth) {
  Active here;
  if (depth == 0) throw std::runtime_error("bottom");
  try {
    climb(depth - 1);
  } catch (std::exception &) {
    if (depth != 2) throw;
    throw std::logic_error("another one");
  }
}

__attribute__((noinline)) static void once() {
  try {
    climb(3);
  } catch (std::exception &) {
  }
}

static jmp_buf place;
static sigjmp_buf other_place;

__attribute__((noinline)) static void fall(int depth, bool mask) {
  volatile char room[64];
  room[0] = (char)depth;
  if (depth > 0) fall(depth - 1, mask);
  else if (mask) siglongjmp(other_place, 1);
  else longjmp(place, 1);
  room[1] = room[0];
}

__attribute__((noinline)) static void lands() {
  if (setjmp(place) == 0) fall(3, false);
  if (sigsetjmp(other_place, 1) == 0) fall(3, true);
}

static void *steps(void *) {
  once();
  lands();
  STEP_ON;
  once();
  lands();
  STEP_OFF;
  return nullptr;
}

// An argument: in a thread that no instrumented code seems to create.
int main(int argc, char **) {
  points.reserve(1 << 25);
  struct sigaction action = {};
  action.sa_sigaction = trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  if (argc > 1) {
    pthread_t thread;
    auto *volatile create = pthread_create;
    create(&thread, nullptr, steps, nullptr);
    pthread_join(thread, nullptr);
  } else {
    steps(nullptr);
  }
  fwrite(points.data(), 1, points.size(), stdout);
}
