// Dies where the way from the innermost function outwards is not what the stack shows: functions that have left by a
// jump, namesakes, words that were overwritten, code in no file.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NOINLINE __attribute__((noinline))

volatile int sum;
static int *volatile null;
static volatile long zero;
int other(int n);

NOINLINE static int die(int n) {
  sum++;
  *null = n;
  return n;
}

// Each of these is entered from code without the pass, and leaves by a jump.
NOINLINE static void *job(void *argument) {
  sum++;
  *null = argument != NULL;
  return (void *)(long)sum;
}

static void *start(void *argument) {
  sum++;
  return job(argument);
}

static int compare(const void *a, const void *b) {
  sum++;
  return die(*(const int *)a - *(const int *)b);
}

NOINLINE static void on_signal(int n) {
  sum++;
  *null = n;
}

static void handler(int n) {
  sum++;
  on_signal(n + 1);
}

NOINLINE static void ends(void) {
  sum++;
  *null = 1;
}

static void bye(void) {
  sum++;
  ends();
}

// Another file has a function of this name.
NOINLINE static int helper(int n) {
  sum++;
  return other(n + 1);
}

NOINLINE static int namesakes(int n) {
  int result = helper(n);
  sum++;
  return result;
}

NOINLINE static void fill(volatile char *bytes, long count) {
  for (long i = 0; i < count; i++)
    bytes[i] = 0;
}

// The return address is behind its buffer.
NOINLINE static int copies(long count) {
  char buffer[16];
  fill(buffer, count);
  *null = 1;
  return buffer[0];
}

NOINLINE static int parses(long count) {
  int result = copies(count);
  sum++;
  return result;
}

// The tables do not tell of a word that assembly pushes.
NOINLINE static long pushes(long n) {
  long flags;
  sum += n;
  __asm__ volatile("pushfq\n\tmovl (%1), %%eax\n\tpopq %0" : "=r"(flags) : "r"(null) : "rax", "rbx", "memory");
  return flags;
}

NOINLINE static long assembles(long n) {
  long kept = zero, result = pushes(n);
  sum += kept;
  return result;
}

NOINLINE static void gone(int n) {
  char buffer[64];
  memset(buffer, n, sizeof buffer);
  __asm__ volatile("" ::"r"(buffer) : "memory");
  sum += n;
}

NOINLINE static void calls_gone(int n) {
  gone(n);
  sum++;
}

// In code that is in no file, with so many words on the stack.
NOINLINE static void generated(unsigned char words) {
  unsigned char code[] = {0x48, 0x83, 0xec, 8 * words, 0x0f, 0x0b};
  void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(memory, code, sizeof code);
  calls_gone(1);
  ((void (*)(void))memory)();
  sum++;
}

int main(int count, char **arguments) {
  const char *way = count > 1 ? arguments[1] : "";
  sum++;
  if (!strcmp(way, "thread")) {
    pthread_t thread;
    pthread_create(&thread, NULL, start, NULL);
    pthread_join(thread, NULL);
  } else if (!strcmp(way, "callback")) {
    int values[] = {3, 1};
    qsort(values, 2, sizeof *values, compare);
  } else if (!strcmp(way, "signal")) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
  } else if (!strcmp(way, "exit")) {
    atexit(bye);
    exit(0);
  } else if (!strcmp(way, "namesakes")) {
    namesakes(count);
  } else if (!strcmp(way, "zeros")) {
    parses(56);
  } else if (!strcmp(way, "assembly")) {
    assembles(count);
  } else {
    generated((unsigned char)atoi(way));
  }
  return 0;
}
