// Takes contexts in recursion, through pointers and through plugins, and writes each as a line `NUMBER TOKEN`, when the
// number is there already.
//
//   events ROUNDS THREADS [PLUGIN…]    so many lines of each thread; 0: until it is killed
//
// With EVENTS_FORK, as many child processes do the same as the first thread; with EVENTS_CLOSE all files but the first
// three are closed before.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pcce.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")

typedef void function(int depth);
typedef void plugin(function *back, int depth);

static char **plugins;
static int plugin_count;
static __thread unsigned long long random_state;

static unsigned random_number(void) {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)(random_state >> 33);
}

NOINLINE static void leaf(void) {
  char line[8192];
  int length = sprintf(line, "%llu ", (unsigned long long)pcce_context());
  length += (int)pcce_token(line + length, sizeof line - 64);
  line[length++] = '\n';
  if (write(1, line, (size_t)length) != length) _exit(99);
}

static void left(int depth), right(int depth), through(int depth);
static function *const functions[] = {left, right, through, left};

NOINLINE static void go_on(int depth) {
  if (depth <= 0) leaf();
  else functions[random_number() % 4](depth - 1);
  KEEP;
}
NOINLINE static void left(int depth) { go_on(depth); KEEP; }
NOINLINE static void right(int depth) {
  if (depth > 2 && random_number() % 2) right(depth - 1);
  else go_on(depth);
  KEEP;
}
NOINLINE static void through(int depth) {
  if (plugin_count == 0) {
    go_on(depth);
  } else {
    void *library = dlopen(plugins[random_number() % plugin_count], RTLD_NOW | RTLD_LOCAL);
    if (!library) _exit(98);
    ((plugin *)dlsym(library, "plugin"))(go_on, depth);
    dlclose(library);
  }
  KEEP;
}

static int rounds;
static void *work(void *seed) {
  random_state = (unsigned long long)(size_t)seed * 7919 + 1;
  for (int i = 0; rounds == 0 || i < rounds; i++) go_on((int)(random_number() % 12));
  return NULL;
}

int main(int count, char **arguments) {
  rounds = atoi(arguments[1]);
  int threads = atoi(arguments[2]);
  plugins = arguments + 3;
  plugin_count = count - 3;
  if (getenv("EVENTS_CLOSE"))
    for (int i = 3; i < 5000; i++) close(i);
  // In front of the children, too: they have what was numbered before.
  work((void *)(size_t)threads);
  pthread_t started[64];
  int forks = getenv("EVENTS_FORK") ? threads : 0;
  for (int i = 0; i < forks; i++)
    if (fork() == 0) {
      work((void *)(size_t)(i + 100));
      _exit(0);
    }
  for (int i = 0; i < threads; i++) pthread_create(&started[i], NULL, work, (void *)(size_t)(i + 1));
  for (int i = 0; i < threads; i++) pthread_join(started[i], NULL);
  for (int i = 0; i < forks; i++) wait(NULL);
  return 0;
}
