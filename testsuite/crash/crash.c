// Crashes in the way that the first argument names; the second one adds threads.
#define _GNU_SOURCE
#include <link.h>
#include <pcce.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")

static pthread_barrier_t barrier;
static sigjmp_buf again;
static const char *how;

NOINLINE static int deep(int n, volatile char *outer) {
  volatile char room[200];
  room[0] = (char)n;
  return n < 0 ? 0 : deep(n + 1, room) + room[1] + outer[1];
}

// Nothing that it calls looks at the context, however deep it is.
NOINLINE static long sink(long n, volatile long *at) {
  if (n == 0) return *at;
  long found = n % 3 ? sink(n - 1, at) : 2 * sink(n - 1, at);
  return found + n;
}

NOINLINE static int by_fault(const void *a, const void *b) {
  (void)a;
  *(volatile int *)b = *(volatile int *)0x10;
  return 0;
}

// Takes away the unwind tables of libc, which called main, so that the handler crashes, too.
static int hide_tables(struct dl_phdr_info *image, size_t size, void *x) {
  (void)size;
  (void)x;
  if (!strstr(image->dlpi_name, "libc.so")) return 0;
  const ElfW(Phdr) *first = image->dlpi_phdr, *end = first + image->dlpi_phnum, *tables = first, *load = first;
  while (tables != end && tables->p_type != PT_GNU_EH_FRAME) tables++;
  if (tables == end) return 1;
  while (load->p_type != PT_LOAD || tables->p_vaddr - load->p_vaddr >= load->p_memsz) load++;
  uintptr_t page = 4095, from = image->dlpi_addr + tables->p_vaddr;
  uintptr_t to = image->dlpi_addr + load->p_vaddr + load->p_memsz;
  from = (from + page) & ~page;
  if (mprotect((void *)from, ((to + page) & ~page) - from, PROT_NONE) != 0) _exit(8);
  return 1;
}

NOINLINE static void hide(void) {
  dl_iterate_phdr(hide_tables, NULL);
  KEEP;
}

// No frame is on the chain when it crashes, so the handler follows the stack to main's caller.
NOINLINE static void hide_and_crash(void) {
  hide();
  *(volatile int *)0x10 = 1;
}

NOINLINE static void fault(void) {
  volatile int zero = 0;
  if (!strcmp(how, "null")) *(volatile int *)0x10 = 1;
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "overflow")) printf("%d\n", deep(0, (volatile char *)how));
  if (!strncmp(how, "sink", 4)) printf("%ld\n", sink(atol(how + 4), (volatile long *)0x10));
  if (!strcmp(how, "divide")) {
    __asm__ volatile("xorl %%edx, %%edx; movl $1, %%eax; divl %0" : : "r"(zero) : "eax", "edx");
  }
  if (!strcmp(how, "illegal")) __builtin_trap();
  if (!strcmp(how, "jump")) ((void (*)(void))0x1234)();
  if (!strcmp(how, "wild")) *(volatile int *)0x1234567812345678 = 1;
  if (!strcmp(how, "callback")) {
    int list[] = {2, 1};
    qsort(list, 2, sizeof *list, by_fault);
  }
  if (!strcmp(how, "heap")) {
    char *block = malloc(40);
    memset(block - 64, 0x41, 70000);
    free(block);
    free(malloc(100));
    abort();
  }
  if (!strncmp(how, "again", 5)) {
    int aborts = !strcmp(how, "again-abort");
    if (!aborts) hide_and_crash();
    hide();
    abort();
  }
  if (!strcmp(how, "sent")) {
    kill(getpid(), SIGSEGV);
    pause();
  }
  KEEP;
}

static void own(int signal) {
  static const char text[] = "own handler\n";
  (void)signal;
  (void)!write(1, text, sizeof text - 1);
  if (!strcmp(how, "recover")) siglongjmp(again, 1);
  _exit(7);
}

NOINLINE static void sleeper(void) {
  pause();
  KEEP;
}

static void *quiet(void *x) {
  pthread_barrier_wait(&barrier);
  sleeper();
  // A program that goes on while it crashes would end well here.
  _exit(0);
  return x;
}

static void *deaf(void *x) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  pthread_barrier_wait(&barrier);
  sleeper();
  return x;
}

static void *crasher(void *x) {
  pthread_barrier_wait(&barrier);
  usleep(20000);
  fault();
  KEEP;
  return x;
}

static struct pcce_task task;
static void quietly(void *x) { quiet(x); }
static void *quiet_in_task(void *x) {
  pcce_task_run(&task, quietly, x);
  return x;
}

static void crash(void *x) { crasher(x); }
static void *crasher_in_task(void *x) {
  pcce_task_run(&task, crash, x);
  return x;
}

NOINLINE static void submit(void) { pcce_task_capture(&task); }

int main(int count, char **arguments) {
  const char *threads = count > 2 ? arguments[2] : "";
  how = arguments[1];
  struct rlimit small = {1 << 18, 1 << 18};
  if (!strcmp(how, "overflow")) setrlimit(RLIMIT_STACK, &small);
  if (!strcmp(how, "own") || !strcmp(how, "recover")) signal(SIGSEGV, own);
  if (getenv("INSTALL")) {
    if (pcce_install_crash_handler(2) != 0) return 1;
  }
  if (!strcmp(how, "own")) *(volatile int *)0x10 = 1;
  if (!strcmp(how, "recover")) {
    if (sigsetjmp(again, 1) == 0) *(volatile int *)0x10 = 1;
    puts("recovered");
    return 5;
  }
  if (!*threads) {
    fault();
    return 0;
  }
  pthread_barrier_init(&barrier, NULL, 5);
  pthread_t ids[4];
  int is_deaf = !strcmp(threads, "deaf"), two = !strcmp(threads, "two");
  void *(*starts[])(void *) = {quiet, is_deaf ? deaf : quiet, crasher, two ? crasher : quiet};
  if (!strcmp(threads, "tasks")) {
    submit();
    starts[0] = starts[1] = starts[3] = quiet_in_task;
    starts[2] = crasher_in_task;
  }
  for (int i = 0; i < 4; i++) pthread_create(&ids[i], NULL, starts[i], NULL);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
  return 0;
}
