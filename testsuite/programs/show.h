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

// With SHOW_BACKTRACE, each line has another one behind it, for a comparison with libgcc's unwinder: `%NAME TOKEN
// ADDRESS…`, the addresses of the calls from here outwards, as offsets in the executable; 0 for code that is elsewhere.
#ifdef SHOW_BACKTRACE
#include <unwind.h>
extern char __executable_start, _end;
enum { SHOW_ADDRESSES = 256 };
struct show_addresses { unsigned long list[SHOW_ADDRESSES]; int count; };

static _Unwind_Reason_Code show_address(struct _Unwind_Context *context, void *all) {
  struct show_addresses *addresses = (struct show_addresses *)all;
  int interrupted = 0;
  unsigned long at = _Unwind_GetIPInfo(context, &interrupted);
  if (addresses->count == SHOW_ADDRESSES) return _URC_END_OF_STACK;
  int within = at > (unsigned long)&__executable_start && at < (unsigned long)&_end;
  addresses->list[addresses->count++] = within ? at - (unsigned long)&__executable_start - !interrupted : 0;
  return _URC_NO_REASON;
}

static inline NOINLINE void show_backtrace(const char *name, const char *token) {
  struct show_addresses addresses;
  char line[sizeof show_token + 64 + SHOW_ADDRESSES * 17];
  addresses.count = 0;
  _Unwind_Backtrace(show_address, &addresses);
  int length = snprintf(line, sizeof line, "%%%s %s", name, token);
  // In front of the caller's are this function's own, and a stub's in link mode.
  unsigned long caller = (unsigned long)__builtin_return_address(0) - (unsigned long)&__executable_start - 1;
  int first = 0;
  while (first < addresses.count && addresses.list[first] != caller) first++;
  for (int i = first; i < addresses.count; i++) length += snprintf(line + length, 20, " %lx", addresses.list[i]);
  line[length++] = '\n';
  if (write(1, line, (size_t)length) != length) _exit(99);
}
#else
#define show_backtrace(name, token) ((void)0)
#endif

// The token's buffer has `room` bytes.
#define SHOW_IN(name, room)                                                    \
  do {                                                                         \
    unsigned long long number_ = pcce_context(); pcce_token(show_token, room); \
    show_line(name, show_token, number_); show_backtrace(name, show_token);    \
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
