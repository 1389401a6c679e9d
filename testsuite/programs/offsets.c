// Ways to a function that differ in nothing but stack offsets, which is what a hybrid encoding goes by: frames of
// several sizes, in `main`'s sub-path, in recursion, in callbacks, in threads and in handlers of signals.
//# Chain way: bottom < middle < large < main
//# Chain way: bottom < middle < small < main
//# Chain way: bottom < large_middle < large < main
//# Chain way: bottom < large_middle < small < main
//# Chain twice: both < twice < main
//# Chain twice: both < twice < main
//# Chain again: leaf < left < again < left < again < right < again < main
//# Chain again: leaf < right < again < left < again < right < again < main
//# Chain again: leaf < left < again < right < again < right < again < main
//# Chain again: leaf < right < again < right < again < right < again < main
//# Chain compared: ordered < small_ordered < compare < <qsort> < main
//# Chain compared: ordered < large_ordered < compare < <qsort> < main
//# Chain threaded: in_thread < small_in_thread < run
//# Chain threaded: in_thread < large_in_thread < run
//# Chain handled: in_handler < small_in_handler < handler < <signal> < <raise> < raising < main
//# Chain handled: in_handler < large_in_handler < handler < <signal> < <raise> < raising < main
#include "show.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

// A frame of so many bytes.
#define FRAME(bytes)     \
  char frame_[bytes];    \
  __asm__ volatile("" : : "r"(frame_) : "memory")

#define TWO_WAYS(function, small, large)         \
  NOINLINE static void small(void) {             \
    FRAME(16);                                   \
    function();                                  \
    KEEP;                                        \
  }                                              \
  NOINLINE static void large(void) {             \
    FRAME(400);                                  \
    function();                                  \
    KEEP;                                        \
  }

NOINLINE static void bottom(void) {
  SHOW("way");
  KEEP;
}

NOINLINE static void middle(void) {
  FRAME(100);
  bottom();
  KEEP;
}

NOINLINE static void large_middle(void) {
  FRAME(2000);
  bottom();
  KEEP;
}

NOINLINE static void large(int other) {
  FRAME(600);
  other ? large_middle() : middle();
  KEEP;
}

NOINLINE static void small(int other) {
  FRAME(8);
  other ? large_middle() : middle();
  KEEP;
}

// Two calls with one frame: only the id tells them apart.
NOINLINE static void both(void) {
  SHOW("twice");
  KEEP;
}

NOINLINE static void twice(void) {
  FRAME(32);
  both();
  KEEP;
  both();
  KEEP;
}

NOINLINE static void again(int n, int way);

NOINLINE static void leaf(void) {
  SHOW("again");
  KEEP;
}

NOINLINE static void left(int n, int way) {
  FRAME(64);
  if (n > 0)
    again(n - 1, way >> 1);
  else
    leaf();
  KEEP;
}

NOINLINE static void right(int n, int way) {
  FRAME(300);
  if (n > 0)
    again(n - 1, way >> 1);
  else
    leaf();
  KEEP;
}

NOINLINE static void again(int n, int way) {
  FRAME(48);
  if (way & 1)
    right(n, way);
  else
    left(n, way);
  KEEP;
}

NOINLINE static void ordered(void) {
  SHOW("compared");
  KEEP;
}
TWO_WAYS(ordered, small_ordered, large_ordered)

static int compare(const void *a, const void *b) {
  small_ordered();
  KEEP;
  large_ordered();
  KEEP;
  return *(const int *)a - *(const int *)b;
}

NOINLINE static void in_thread(void) {
  SHOW("threaded");
  KEEP;
}
TWO_WAYS(in_thread, small_in_thread, large_in_thread)

static void *run(void *unused) {
  (void)unused;
  small_in_thread();
  KEEP;
  large_in_thread();
  KEEP;
  return NULL;
}

NOINLINE static void in_handler(void) {
  SHOW("handled");
  KEEP;
}
TWO_WAYS(in_handler, small_in_handler, large_in_handler)

static void handler(int number) {
  (void)number;
  small_in_handler();
  KEEP;
  large_in_handler();
  KEEP;
}

NOINLINE static void raising(void) {
  FRAME(24);
  raise(SIGUSR1);
  KEEP;
}

int main(void) {
  FRAME(40);
  large(0);
  small(0);
  large(1);
  small(1);
  twice();
  again(2, 1);
  again(2, 5);
  again(2, 3);
  again(2, 7);
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof numbers[0], compare);
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) != 0) return 1;
  pthread_join(thread, NULL);
  signal(SIGUSR1, handler);
  raising();
  printf("%d %d\n", numbers[0], numbers[1]);
  return 0;
}
