#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __cplusplus
extern "C" {
#endif
void says(const char *), ends(int);
#ifdef __cplusplus
}
#endif
#define OWN static __attribute__((noinline)) void
OWN one(int n) { (void)n; says("one"); }
OWN two(int n) { (void)n; says("two"); }
OWN three(int n) { (void)n; says("three"); }
OWN last(void *p) { (void)p; says("last"); }
static pthread_key_t key; static volatile int spin, waits;
OWN sleeps(void) { one(1); waits = 1; sleep(10); two(1); says("more"); three(2); }
OWN below(void) { one(1); sleeps(); three(1); }
OWN spins(void) { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL); one(1); waits = 1;
  while (!spin) {} two(1); three(2); }
OWN exits(void) { one(1); pthread_exit(NULL); }
OWN may_exit(int n) { one(n); if (n) pthread_exit(NULL); two(n); }
OWN callee(void) { may_exit(1); three(1); }
OWN plain(void) { one(1); ends(1); two(1); three(1); }
OWN returns(void) { one(1); two(1); three(1); }
static int compares(const void *a, const void *b) { (void)a; (void)b; one(1); pthread_exit(NULL); }
OWN library(void) { int two_of[2] = { 2, 1 }; qsort(two_of, 2, sizeof *two_of, compares); two(1); three(1); }
OWN cleans(void) { pthread_cleanup_push(last, NULL); one(1); waits = 1; sleep(10); two(1);
  pthread_cleanup_pop(1); three(2); }
#ifdef __cplusplus
struct Last { int n; ~Last() { last(nullptr); } }; static thread_local Last object{1};
#define TOUCH object.n++
#else
#define TOUCH (void)0
#endif
static const struct { const char *name; void (*run)(void); int cancelled; } ways[] = { { "sleeps", sleeps, 1 },
  { "below", below, 1 }, { "spins", spins, 1 }, { "exits", exits, 0 }, { "callee", callee, 0 },
  { "plain", plain, 0 }, { "returns", returns, 0 }, { "library", library, 0 }, { "cleans", cleans, 1 } };
static void *runs(void *way) { TOUCH; pthread_setspecific(key, way); ways[(size_t)way - 1].run(); return NULL; }
int main(int count, char **words) { (void)count; pthread_t thread; pthread_key_create(&key, last);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) if (!strcmp(words[1], ways[i].name)) {
    pthread_create(&thread, NULL, runs, (void *)(i + 1));
    // What a thread writes before is written once: a cancelled thread may leave its line in the buffer.
    if (ways[i].cancelled) { while (!waits) usleep(1000); pthread_cancel(thread); }
    pthread_join(thread, NULL); }
  return 0; }
