// A thousand short threads, many at a time, each with a context known by construction: none is lost, none is mixed with
// another's, and what the runtime keeps for a thread goes with it.
//# Chain path0: end < zero*3 < choose*4 < start < <thread> < spawn < main
//# Chain path1: end < one < zero*2 < choose*4 < start < <thread> < spawn < main
//# Chain path2: end < zero < one < zero < choose*4 < start < <thread> < spawn < main
//# Chain path3: end < one*2 < zero < choose*4 < start < <thread> < spawn < main
//# Chain path4: end < zero*2 < one < choose*4 < start < <thread> < spawn < main
//# Chain path5: end < one < zero < one < choose*4 < start < <thread> < spawn < main
//# Chain path6: end < zero < one*2 < choose*4 < start < <thread> < spawn < main
//# Chain path7: end < one*3 < choose*4 < start < <thread> < spawn < main
#include "show.h"
#include <atomic>
#include <cstdlib>
#include <pthread.h>

constexpr int PATHS = 8, THREADS = 1000, ALIVE = 50;
static std::atomic<unsigned long long> numbers[PATHS];
static std::atomic<int> wrong;

// Each capture of a path gives the same number, the one of the first thread that came here.
NOINLINE static void end(int path, bool show) {
  unsigned long long number = pcce_context(), expected = 0;
  if (!numbers[path].compare_exchange_strong(expected, number) && expected != number) wrong++;
  char name[] = "path0";
  name[4] = (char)('0' + path);
  if (show) SHOW_ACROSS(name);
  KEEP;
}

// A macro: no frame of its own.
#define GO(path, bits, show)                                             \
  do {                                                                   \
    if (bits == 0) end(path, show);                                      \
    else functions[path >> (bits - 1) & 1](path, bits - 1, show);        \
  } while (0)
static void zero(int path, int bits, bool show);
static void one(int path, int bits, bool show);
static void (*const functions[])(int, int, bool) = {zero, one};
NOINLINE static void zero(int path, int bits, bool show) { GO(path, bits, show); KEEP; }
NOINLINE static void one(int path, int bits, bool show) { GO(path, bits, show); KEEP; }
NOINLINE static void choose(int n, int path, bool show) {
  if (n > 0) choose(n - 1, path, show);
  else GO(path, 3, show);
  KEEP;
}

static void *start(void *argument) {
  int index = (int)(long)argument;
  // Other paths of the same thread before its own.
  for (int i = 0; i <= 25 * PATHS; i++) choose(3, (index + i) % PATHS, i == 25 * PATHS);
  return nullptr;
}

NOINLINE static void spawn(int first, int count) {
  pthread_t threads[ALIVE];
  for (int i = 0; i < count; i++)
    if (pthread_create(&threads[i], nullptr, start, (void *)(long)(first + i)) != 0) abort();
  for (int i = 0; i < count; i++) pthread_join(threads[i], nullptr);
}

static void *nothing(void *argument) { return argument; }
NOINLINE static void spawn_nothing(int count) {
  for (int i = 0; i < count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, nothing, nullptr) != 0) abort();
    pthread_join(thread, nullptr);
  }
}

// Pages of address space.
static long pages() {
  long size = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == nullptr || fscanf(file, "%ld", &size) != 1) abort();
  fclose(file);
  return size;
}

int main(int argc, char **argv) {
  for (int i = 0; i < THREADS; i += ALIVE) spawn(i, ALIVE);
  int equal = 0;
  for (int i = 0; i < PATHS; i++)
    for (int j = 0; j < i; j++) equal += numbers[i] != 0 && numbers[i] == numbers[j];
  printf("%d wrong, %d equal\n", wrong.load(), equal);
  int more = argc > 1 ? atoi(argv[1]) : 5000;
  spawn_nothing(100);
  long before = pages();
  spawn_nothing(more);
  printf("grown: %d\n", pages() - before > 100);
  return 0;
}
