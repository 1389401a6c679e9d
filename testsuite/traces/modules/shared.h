/* Calls between modules of one program: of all kinds that a trace tells apart. */
#pragma once
#define NOINLINE __attribute__((noinline))

struct Base {
  virtual ~Base() {}
  virtual int value(int n);
};
struct Other : Base {
  int value(int n) override;
};

/* In several modules, of which the linker keeps one. */
NOINLINE inline int in_both(int n) {
  __asm__("");
  return n + 1;
}

extern "C" {
int first(int n);
int second(int n);
int ping(int n);
int pong(int n);
int thrower(int n);
int through(int n);
int labels(int n);
int leaves(int n);
int left_to(int n);
int weak_one(int n);
int called_twice(int n);
__attribute__((visibility("hidden"))) int hidden(int n);
int skipped(int n);
int back_from_skipped(int n);
int jumper(int n);
int jumps(int n);
int by_pointer(int (*function)(int), int n);
}
