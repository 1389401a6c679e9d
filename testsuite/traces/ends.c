// How processes and threads can end: children of fork with a few events, threads that others do not wait for, and
// recursion that nothing ends. See testsuite/tests/suite/trace/ends.rs.
#define _GNU_SOURCE
#include <pcce.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEW __attribute__((noinline)) static
static volatile int seen, ready;
NEW void note(int n) { seen = n; }
NEW int work(int n) {
  for (int i = 0; i < n; i++)
    if (i % 3 == 0) note(i);
  return n;
}
NEW int endless(int n);
NEW int recurses(int n) {
  volatile char room[64];
  room[n & 63] = 1;
  return endless(n + 1) + room[3];
}
NEW int endless(int n) {
  volatile char room[64];
  room[n & 63] = 1;
  return recurses(n + 1) + room[3];
}

static int pipes[2];
static void *waits(void *events) {
  work((int)(long)events);
  __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
  char c;
  if (read(pipes[0], &c, 1)) note(0);
  return NULL;
}
static void *forks(void *way);

static int child(const char *way) {
  work(7);
  if (!strcmp(way, "exit")) exit(5);
  if (!strcmp(way, "quick_exit")) quick_exit(5);
  if (!strcmp(way, "_exit")) _exit(5);
  if (!strcmp(way, "pthread_exit")) pthread_exit(NULL);
  if (!strcmp(way, "killed")) kill(getpid(), SIGKILL);
  return 5;
}
static void *forks(void *way) {
  if (fork() == 0) child(way);
  return NULL;
}

int main(int argc, char **argv) {
  const char *way = argv[1];
  if (!strcmp(way, "recursion")) return endless(argc);
  if (!strcmp(way, "thread")) { // whose child returns from the thread's function
    pthread_t thread;
    pthread_create(&thread, NULL, forks, (void *)way);
    pthread_join(thread, NULL);
    while (wait(NULL) > 0) {}
    return 0;
  }
  if (!strcmp(way, "daemon")) { // whose parent ends in libc, and writes nothing more
    if (daemon(1, 1)) return 1;
    return work(7) != 7;
  }
  if (!strcmp(way, "nowhere")) {
    void (*volatile nowhere)(void) = NULL;
    work(10);
    nowhere();
  }
  if (!strncmp(way, "flushed", 7)) { // and then ended, with less than a word behind the flush
    work(7);
    pcce_trace_flush();
    work(20);
    if (!strcmp(way, "flushed-killed")) kill(getpid(), SIGKILL);
    if (!strcmp(way, "flushed-crash")) *(volatile int *)8 = 1;
    work(4);
    return 0;
  }
  if (strncmp(way, "threads", 7)) {
    if (fork() == 0) return child(way);
    wait(NULL);
    note(0);
    return 0;
  }
  if (pipe(pipes)) return 1;
  pthread_t thread;
  for (long i = 0; i < 3; i++) pthread_create(&thread, NULL, waits, (void *)(4 + 7 * i));
  while (ready < 3) usleep(1000);
  usleep(100000);
  if (!strcmp(way, "threads-crash")) {
    work(10);
    *(volatile int *)8 = 1;
  }
  return 0;
}
