#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void other(void) { puts("other"); }
static void at(void) { char room[4000]; for (int i = 0; i < 4000; i++) room[i] = 'A';
  __asm__ volatile("" : : "r"(room) : "memory"); puts("at"); other(); }
static void *waits(void *p) { usleep(10000); puts("waits"); return p; }
__attribute__((noinline)) static void deep(int n) { if (n) { deep(n - 1); __asm__ volatile(""); }
  else pthread_exit(0); }
int main(int count, char **words) { pthread_t thread; void (*volatile f)(int) = deep; atexit(at);
  if (count > 1) pthread_create(&thread, 0, waits, 0); puts("main"); f(3); return 0; }
