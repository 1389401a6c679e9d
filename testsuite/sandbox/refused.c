// A program in a sandbox. Arguments: when the kernel begins to refuse ("early": before the program starts; "late": in
// `main`), the numbers of the system calls (behind a `!`: all but those), how much is computed, and how the program
// ends.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef PCCE
#include <pcce.h>
#else
#define pcce_context() 1
#define pcce_install_crash_handler(descriptor) ((void)0)
#endif

#define NOINLINE __attribute__((noinline))

static volatile long sum;
static int *volatile null;

static void refuse(const char *calls) {
  int but = *calls == '!';
  unsigned matches = but ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM;
  unsigned others = but ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW;
  struct sock_filter filter[256] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  unsigned short len = 1;
  for (const char *at = calls + but; at && len < 250; at = strchr(at, ','), at += at != NULL) {
    filter[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, atoi(at), 0, 1);
    filter[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, matches);
  }
  filter[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
  struct sock_fprog program = {len, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(99);
}

NOINLINE static long spin(long n) {
  for (long i = 0; i < n; i++)
    sum += i ^ n;
  return sum;
}

NOINLINE static char *keeps(size_t size) {
  char *block = malloc(size);
  if (block) memset(block, 1, size);
  return block;
}

NOINLINE static long works(int depth, long n) {
  char *block = keeps(64 + depth);
  sum += pcce_context() != 0;
  long found = depth > 0 ? works(depth - 1, n) : spin(n);
  free(block);
  return found + 1;
}

NOINLINE static void ends(const char *how) {
  sum++;
  if (!strcmp(how, "null")) *null = 1;
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "sent")) raise(SIGSEGV);
  if (!strcmp(how, "bus")) raise(SIGBUS);
  if (!strcmp(how, "term")) raise(SIGTERM);
  if (!strcmp(how, "now")) _exit(3);
  sum++;
}

static sigjmp_buf again;

// The program's own handler goes on once.
static void own(int number) {
  static int calls;
  (void)!write(1, "own\n", 4);
  if (calls++ == 0) siglongjmp(again, 1);
  _exit(number);
}

NOINLINE static void recovers(const char *how) {
  if (sigsetjmp(again, 1) == 0) ends(how);
  (void)!write(1, "back\n", 5);
  __asm__ volatile("xorl %%edx, %%edx; xorl %%eax, %%eax; divl %%edx" : : : "eax", "edx");
}

static void *job(void *how) {
  works(3, 10);
  ends(how);
  return NULL;
}

int main(int count, char **arguments) {
  if (count < 5) return 98;
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  if (!strcmp(arguments[1], "early")) {
    arguments[1] = "never";
    refuse(arguments[2]);
    execv("/proc/self/exe", arguments);
    return 97;
  }
  int has_handlers = !strncmp(arguments[4], "own-", 4);
  if (has_handlers) {
    signal(SIGSEGV, own);
    signal(SIGABRT, own);
    signal(SIGFPE, own);
    // Now that is what was there before.
    pcce_install_crash_handler(2);
  }
  if (!strcmp(arguments[1], "late")) refuse(arguments[2]);
  long found = works(5, atol(arguments[3])) != 0;
  char text[40];
  int len = snprintf(text, sizeof text, "found %ld\n", found);
  if (write(1, text, len) != len) sum++;
  if (has_handlers) recovers(arguments[4] + 4);
  if (!strncmp(arguments[4], "thread-", 7)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, job, arguments[4] + 7) == 0) pthread_join(thread, NULL);
  } else {
    ends(arguments[4]);
  }
  return 4;
}
