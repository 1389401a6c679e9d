// Threads that call plugins, which come one after the other to the same place, and a forked child that goes on so; with
// -DNAME=a -DMORE=1, a plugin.
typedef int called(int);
#define NOINLINE __attribute__((noinline))
#ifdef NAME
#define JOIN(x, y) x##y
#define OWN(x, y) JOIN(x, y)
NOINLINE static int OWN(NAME, _leaf)(int n, called *f) { return n & 1 ? f(n) + MORE : n; }
NOINLINE static int OWN(NAME, _middle)(int n, called *f) {
  int sum = 0;
  for (int i = 0; i < n % 5; i++) sum += OWN(NAME, _leaf)(n + i, f);
  return sum;
}
int enter(int n, called *f) {
  return n % 3 ? OWN(NAME, _middle)(n, f) : OWN(NAME, _leaf)(n, f) + OWN(NAME, _middle)(n + 1, f);
}
static int none(int n) { return n; }
__attribute__((constructor)) static void OWN(NAME, _begin)(void) {
  volatile int sum = OWN(NAME, _middle)(3, none);
  (void)sum;
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int entry(int, called *);
enum { THREADS = 3, ROUNDS = 12 };
static pthread_barrier_t barrier;
static entry *enter;
static volatile int stop;

NOINLINE static int back(int n) { return n * 3 % 7; }
NOINLINE static int work(int id) {
  int sum = 0;
  for (int i = 0; i < 12; i++) sum += enter(i * id + id, back);
  return sum;
}
static void *thread(void *argument) {
  long id = (long)argument, sum = 0;
  for (;;) {
    pthread_barrier_wait(&barrier);
    if (stop) return (void *)sum;
    // One of them takes no part in some rounds.
    if (id != 2 || sum & 1) sum += work((int)id); else sum++;
    pthread_barrier_wait(&barrier);
  }
}
static entry *load(const char *path, void **library) {
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!*library) {
    puts(dlerror());
    exit(1);
  }
  return (entry *)dlsym(*library, "enter");
}
static void child(void *library, char **paths) {
  void *other;
  int sum = work(2);
  dlclose(library);
  enter = load(paths[1], &other);
  exit(sum + work(3) < 0);
}
int main(int count, char **arguments) {
  pthread_t threads[THREADS];
  entry *first = NULL;
  int same = 0;
  pthread_barrier_init(&barrier, NULL, THREADS + 1);
  for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, thread, (void *)(i + 1));
  for (int round = 0; round < ROUNDS; round++) {
    void *library;
    enter = load(arguments[1 + round * 7 / 3 % (count - 1)], &library);
    same += enter == first;
    first = enter;
    if (round % 5 == 4) {
      pid_t process = fork();
      if (process == 0) child(library, arguments);
      waitpid(process, NULL, 0);
    }
    pthread_barrier_wait(&barrier);
    work(9);
    pthread_barrier_wait(&barrier);
    dlclose(library);
  }
  stop = 1;
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  // Else nothing was tried.
  puts(same > ROUNDS / 2 ? "at one place" : "moved");
  return 0;
}
#endif
