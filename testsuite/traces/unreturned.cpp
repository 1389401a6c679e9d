// Calls that do not come back, in the middle of a block. How often a line is executed is said behind it. See
// testsuite/tests/suite/trace/lines.rs.
#include <cstdlib>
#include <pthread.h>
#include <setjmp.h>

static volatile int counted;
static jmp_buf place;

static void add(int n) {
  counted += n; // 10
}

static void thrower(int n) {
  if (n) throw 5; // 2
}

static void jumper(int n) {
  if (n) longjmp(place, 1); // 2
}

static void leaver(int n) {
  if (n) exit(0); // 1
}

static void ender(int n) {
  if (n) pthread_exit(nullptr); // 1
}

static void throws(int n) {
  thrower(n); // 2
  add(1); // 1
  add(2); // 1
}

static void jumps(int n) {
  jumper(n); // 2
  add(1); // 1
}

// Code that is not traced calls it.
static int compare(const void *left, const void *) {
  thrower(*static_cast<const int *>(left)); // 0
  return 0; // 0
}

static void again() {
  if (!setjmp(place)) jumps(1); // 1
  add(1); // 1
  switch (setjmp(place)) { // 1
  case 0:
    add(1); // 1
    longjmp(place, 2); // 1
  default:
    add(1); // 1
  }
}

static void *thread(void *) {
  add(1); // 1
  ender(1); // 1
  add(1); // 0
  return nullptr; // 0
}

static void leaves() {
  add(1); // 1
  leaver(1); // 1
  add(1); // 0
}

int main() {
  throws(0); // 1
  try {
    throws(1); // 1
    add(1); // 0
  } catch (int) {
    add(1); // 1
  }
  jumps(0); // 1
  again(); // 1
  pthread_t other;
  pthread_create(&other, nullptr, thread, nullptr); // 1
  pthread_join(other, nullptr); // 1
  if (counted > 1000) qsort(&other, 1, 1, compare); // 1
  add(1); // 1
  leaves(); // 1
  add(1); // 0
  return 0; // 0
}
