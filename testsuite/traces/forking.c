#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define NEW __attribute__((noinline))
static volatile int seen; static const char *way, *process = "parent "; static sigjmp_buf place; static int done[2];
static void says(const char *what) { (void)!write(1, process, 7); (void)!write(1, what, strlen(what)); }
NEW static void one(int n) { if (n & 1) seen++; says("one\n"); }
NEW static void two(int n) { one(n); one(n + 1); says("two\n"); }
NEW static void three(void) { for (int i = 0; i < 300; i++) one(i); says("three\n"); }
static void handles(int signal) { (void)signal; one(5); if (fork()) return; char c; process = "child  ";
  (void)!read(done[0], &c, 1); two(1); if (!strcmp(way, "exit")) exit(0); if (!strcmp(way, "_exit")) _exit(0);
  if (!strcmp(way, "jump")) siglongjmp(place, 1); }
NEW static void raises(int n) { one(n); raise(SIGUSR1); two(9); }
int main(int count, char **words) { (void)count; way = words[1]; signal(SIGUSR1, handles); (void)!pipe(done);
  if (sigsetjmp(place, 1) == 0) raises(2); three(); (void)!write(done[1], "", 1); wait(NULL); two(4); return 0; }
