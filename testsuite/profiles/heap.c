/* Every allocation function, from contexts that the test knows. */
#define _GNU_SOURCE
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")

/* Nothing may be left out or merged by the compiler. */
NOINLINE static void *leaf(size_t n) {
  void *p = malloc(n);
  KEEP(p);
  return p;
}
NOINLINE static void *aligned(size_t alignment, size_t n) {
  void *p = NULL;
  if (posix_memalign(&p, alignment, n) || (size_t)p % alignment) abort();
  memset(p, 7, n);
  KEEP(p);
  return p;
}
NOINLINE static void *grow(int times) {
  char *p = NULL;
  for (int i = 1; i <= times; i++) {
    p = realloc(p, (size_t)i * 100);
    p[i * 100 - 1] = (char)i;
    for (int k = 1; k < i; k++)
      if (p[k * 100 - 1] != (char)k) abort();
    KEEP(p);
  }
  return p;
}
NOINLINE static char *copy(const char *text) {
  char *p = strdup(text);
  KEEP(p);
  return p;
}
NOINLINE static void descend(int n) {
  if (n > 0) {
    descend(n - 1);
    KEEP(n);
  } else {
    free(leaf(11));
  }
}
static int compare(const void *a, const void *b) {
  free(leaf(5));
  return *(const int *)a - *(const int *)b;
}
NOINLINE static void sort(void) {
  int values[] = {3, 1, 2};
  qsort(values, 3, sizeof *values, compare);
}
static jmp_buf back;
NOINLINE static void jump(void) {
  free(leaf(21));
  longjmp(back, 1);
}
NOINLINE static void jumping(void) {
  if (setjmp(back) == 0) jump();
  free(leaf(22));
}
static void handler(int signal) {
  (void)signal;
  free(leaf(31));
}
NOINLINE static void interrupted(void) {
  signal(SIGUSR2, handler);
  raise(SIGUSR2);
  free(leaf(32));
}
NOINLINE static void all_forms(void) {
  void *volatile any = calloc(3, 7);
  free(any);
  any = reallocarray(NULL, 3, 9);
  free(any);
  any = memalign(128, 100);
  free(any);
  any = aligned_alloc(64, 128);
  free(any);
  any = valloc(50);
  free(any);
  void *p = aligned(4096, 5000);
  p = realloc(p, 6000);
  if (((char *)p)[4999] != 7) abort();
  if (malloc_usable_size(p) < 6000) abort();
  void *volatile none = realloc(p, 0);
  if (none) abort();
  free(NULL);
  volatile size_t too_much = (size_t)-1 / 4;
  none = malloc(too_much);
  if (none) abort();
  none = calloc(too_much, 5);
  if (none) abort();
}

int main(int argc, char **argv) {
  (void)argv;
  leaf(1000);
  free(grow(50));
  copy("twelve bytes");
  descend(3);
  sort();
  jumping();
  interrupted();
  all_forms();
  if (argc > 1) { /* A forked child, which has a heap of its own. */
    pid_t child = fork();
    if (child == 0) {
      leaf(77);
      exit(0);
    }
    waitpid(child, NULL, 0);
    raise(SIGUSR1); /* PCCE_HEAP_SIGNAL */
    leaf(2000);
    _exit(3);
  }
  return 0;
}
