// Prints the context of the place where it stands as `@NAME TOKEN NUMBER PROCESS`. A macro, so that the place is
// in the function that is tested.
#ifndef SHOW_H
#define SHOW_H
#include <pcce.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define KEEP __asm__ volatile("" ::: "memory") // stands after a call that must not become a tail call

static __thread char show_token[4096];

// One write for each line: threads and children of vfork do not tear lines apart.
static inline NOINLINE void show_line(const char *name, const char *token, unsigned long long number) {
  static __thread char line[2 * sizeof show_token + 128];
  int length = snprintf(line, sizeof line, "@%s %s %llu %d\n", name, token, number, (int)getpid());
  if (write(1, line, (size_t)length) != length) _exit(99);
}

// The token's buffer has `room` bytes.
#define SHOW_IN(name, room)                                                    \
  do {                                                                         \
    unsigned long long number_ = pcce_context(); pcce_token(show_token, room); \
    show_line(name, show_token, number_);                                      \
  } while (0)
#define SHOW(name) SHOW_IN(name, sizeof show_token)

// With the context in which the thread was created.
#define SHOW_ACROSS(name)                                                                             \
  do {                                                                                                \
    static __thread char creation_[sizeof show_token], joined_[2 * sizeof show_token];                \
    unsigned long long number_ = pcce_context(); pcce_token(show_token, sizeof show_token);           \
    int known_ = pcce_thread_token(creation_, sizeof creation_) > 0;                                  \
    snprintf(joined_, sizeof joined_, "%s%s%s", show_token, known_ ? "+" : "", creation_);            \
    show_line(name, joined_, number_);                                                                \
  } while (0)
#endif
