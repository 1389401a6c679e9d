#include <csignal>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#define NEW __attribute__((noinline))
static void says(const char *what) { (void)!write(1, what, strlen(what)); }
NEW void three() { says("three\n"); }
NEW void two() { atexit(three); says("two\n"); }
NEW void one() { atexit(two); atexit(three); says("one\n"); }
NEW void quick() { says("quick\n"); at_quick_exit(two); at_quick_exit(three); }
NEW void forks() { if (fork() == 0) { three(); return; } wait(NULL); two(); }
NEW void handles(int) { three(); }
NEW void raises() { signal(SIGUSR1, handles); raise(SIGUSR1); two(); }
struct Object { NEW Object() {} NEW ~Object() { atexit(one); three(); } };
thread_local Object object;
__attribute__((destructor(101))) static void destroys() { atexit(one); two(); }
__attribute__((destructor(102))) static void forks_last() { atexit(forks); atexit(raises); }
__attribute__((destructor)) static void constructs() { static Object late; three(); }
static void *exits(void *) { exit(0); }
NEW void exits_in(int) { exit(0); }
int main(int, char **words) { pthread_t thread; (void)&object; atexit(one); at_quick_exit(three);
  if (!strcmp(words[1], "thread")) { pthread_create(&thread, NULL, exits, NULL); pause(); }
  if (!strcmp(words[1], "signal")) { signal(SIGUSR1, exits_in); raise(SIGUSR1); }
  if (!strcmp(words[1], "quick")) { at_quick_exit(quick); quick_exit(0); }
  return 0; }
