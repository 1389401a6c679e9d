// Interrupts the program after each instruction of what delivers exceptions, and prints how many calls of `climb` are
// active, and the token. No unwinder is asked: libgcc's own follows what it has half overwritten.
#include <csignal>
#include <cstdio>
#include <pcce.h>
#include <stdexcept>
#include <string>
#include <ucontext.h>

static volatile int active;
static std::string points;

static void trap(int, siginfo_t *, void *context) {
  greg_t *registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
  char token[2048], line[2100];
  size_t length = pcce_token_at(token, sizeof token, (void *)registers[REG_RIP], (void *)registers[REG_RSP]);
  if (length == 0 || length >= sizeof token) __builtin_abort();
  points.append(line, snprintf(line, sizeof line, "%d %s\n", active, token));
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

#define TRAPS(change) \
  __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; " change ", (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc")

int main() {
  once();
  points.reserve(1 << 25);
  struct sigaction action = {};
  action.sa_sigaction = trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  TRAPS("orq $0x100");
  once();
  TRAPS("andq $~0x100");
  fwrite(points.data(), 1, points.size(), stdout);
}
