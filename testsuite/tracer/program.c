/* Plays code that is traced: streams of random events that testsuite/tests/suite/trace/tracer.rs generates, too.
 * Each begins with two marks, its seed and the address of the first function.
 *
 * usage: program WHAT EVENTS [THREADS] */
#define _GNU_SOURCE
#include "emitted.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

void pcce_trace_start(void);
void pcce_trace_stop(void);
void pcce_trace_mark(uint64_t value);
void pcce_trace_flush(void);
int __pcce_sigaction(int, const struct sigaction *, struct sigaction *);
int __pcce_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *, const char *);

/* More than the cache holds, each of 16 bytes. */
#define FUNCTIONS 300
void functions(void);
__asm__(".text\n.p2align 4\n.type functions,@function\nfunctions:\n.cfi_startproc\n.rept 300\n.p2align 4\n"
        "call __pcce_trace_enter\nret\n.endr\n.cfi_endproc\n.size functions, . - functions\n");

static uint64_t next(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

static void begin(uint64_t seed) {
  pcce_trace_mark(seed);
  pcce_trace_mark((uint64_t)functions);
}

static void play(uint64_t *state, long events) {
  for (long i = 0; i < events; i++) {
    uint64_t random = next(state);
    unsigned kind = random & 15, value = random >> 16 & 0xffff;
    if (kind < 11) {
      unsigned bits = (random >> 8 & 0xff) % 9 + 1;
      append(bits, value & ((1u << bits) - 1));
    } else if (kind < 15) {
      unsigned number = value % (random >> 32 & 7 ? 20 : FUNCTIONS);
      ((void (*)(void))((char *)functions + 16 * number))();
    } else if (value % 64 == 0)
      __pcce_trace_landed((void *)functions, value);
    else if (value % 64 == 1)
      pcce_trace_mark(random);
  }
}

struct part {
  uint64_t seed;
  long events;
};

static void *play_part(void *argument) {
  struct part part = *(struct part *)argument;
  uint64_t state = part.seed;
  begin(part.seed);
  play(&state, part.events);
  return NULL;
}

/* Handlers play a few events of a seed of their own. */
static volatile uint64_t handled;
static int jumps;
static sigjmp_buf environment;

static void handler(int signal) {
  uint64_t seed = 0x1000000 + __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED), state = seed;
  begin(seed);
  play(&state, 20);
  if (signal == SIGUSR2 && handled < 100000)
    raise(SIGURG);
  if (jumps && handled % 3 == 0)
    siglongjmp(environment, 1);
}

static void install(int signal) {
  struct sigaction action = {0};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  __pcce_sigaction(signal, &action, NULL);
}

int main(int count, char **arguments) {
  const char *what = arguments[1];
  long events = atol(arguments[2]);
  int threads = count > 3 ? atoi(arguments[3]) : 0;
  uint64_t state = 1;

  if (!strcmp(what, "threads")) {
    pthread_t *ids = calloc(threads, sizeof *ids);
    struct part *parts = calloc(threads, sizeof *parts);
    begin(1);
    play(&state, events);
    for (int i = 0; i < threads; i++) {
      parts[i] = (struct part){i + 2, events};
      if (__pcce_pthread_create(&ids[i], NULL, play_part, &parts[i], "") != 0)
        return 1;
    }
    for (int i = 0; i < threads; i++)
      pthread_join(ids[i], NULL);
    play(&state, events);
  } else if (!strcmp(what, "many")) {
    /* One after the other, many at a time. */
    enum { AT_A_TIME = 100 };
    static struct part parts[AT_A_TIME];
    static pthread_t ids[AT_A_TIME];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 16);
    for (int i = 0; i < threads; i++) {
      if (i >= AT_A_TIME)
        pthread_join(ids[i % AT_A_TIME], NULL);
      parts[i % AT_A_TIME] = (struct part){i + 2, events};
      if (pthread_create(&ids[i % AT_A_TIME], &small, play_part, &parts[i % AT_A_TIME]) != 0)
        return 1;
      usleep(i % AT_A_TIME == 0 ? 1000 : 0);
    }
    for (int i = 0; i < AT_A_TIME; i++)
      pthread_join(ids[i], NULL);
  } else if (!strcmp(what, "forks")) {
    begin(1);
    play(&state, events);
    for (int i = 0; i < 3; i++) {
      pid_t child = i == 2 ? syscall(SYS_fork) : fork();
      if (child == 0) {
        struct part part = {i + 2, events};
        play_part(&part);
        exit(0);
      }
      play(&state, events);
      waitpid(child, NULL, 0);
    }
    if (vfork() == 0) {
      /* In the parent's stream. */
      play(&state, events);
      __pcce_trace_sync();
      _exit(0);
    }
    play(&state, events);
  } else if (!strcmp(what, "execs")) {
    state = threads;
    begin(threads);
    play(&state, events);
    if (threads < 5) {
      char number[20];
      snprintf(number, sizeof number, "%d", threads + 1);
      __pcce_trace_sync();
      execl("/proc/self/exe", arguments[0], what, arguments[2], number, (char *)NULL);
      return 1;
    }
  } else if (!strcmp(what, "forever")) {
    struct part parts[8];
    pthread_t id;
    for (int i = 1; i < threads; i++) {
      parts[i] = (struct part){i + 1, 1L << 60};
      pthread_create(&id, NULL, play_part, &parts[i]);
    }
    begin(1);
    play(&state, 1L << 60);
  } else if (!strcmp(what, "signals") || !strcmp(what, "jumps")) {
    struct itimerval interval = {{0, 50}, {0, 50}};
    install(SIGALRM);
    install(SIGUSR2);
    install(SIGURG);
    begin(1);
    jumps = what[0] == 'j';
    static uint64_t number;
    static volatile long done;
    static uint64_t kept;
    if (jumps) {
      /* A mark tells which events follow a jump. */
      kept = state;
      if (sigsetjmp(environment, 1) == 0)
        setitimer(ITIMER_REAL, &interval, NULL);
      __pcce_trace_returned(&number, (void *)functions, 7);
      pcce_trace_mark(done);
      while (done < events) {
        uint64_t now = kept;
        play(&now, 100);
        sigset_t all, before;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before);
        kept = now;
        done += 100;
        pcce_trace_mark(done);
        sigprocmask(SIG_SETMASK, &before, NULL);
      }
    } else {
      setitimer(ITIMER_REAL, &interval, NULL);
      /* One handler each 64,000 events, or so many each 1,000: the timer's interrupt these where they begin and end. */
      for (long i = 0; i < events; i += 1000) {
        play(&state, 1000);
        for (int j = 0; j < (threads ? threads : i % 64000 == 0); j++)
          raise(SIGUSR2);
      }
    }
    signal(SIGALRM, SIG_IGN);
    printf("%lu\n", (unsigned long)handled);
  } else if (!strcmp(what, "stops")) {
    begin(1);
    play(&state, events);
    pcce_trace_stop();
    for (long i = 0; i < 10 * events; i++)
      append(9, i & 511);
    pcce_trace_start();
    struct part part = {2, events};
    play_part(&part);
  } else if (!strcmp(what, "flushed")) {
    begin(1);
    play(&state, events);
    pcce_trace_flush();
    kill(getpid(), SIGKILL);
  } else if (!strcmp(what, "privileged")) {
    begin(1);
    play(&state, events);
    printf("%d\n", (int)getauxval(AT_SECURE));
  } else if (!strcmp(what, "switches")) {
    begin(1);
    play(&state, events);
    uint64_t number = 0, saved = 0;
    __pcce_trace_switch(&number, (void *)functions, 3);
    ((void (*)(void))functions)();
    append(3, 5);
    __pcce_trace_back(&number, (void *)functions, 3);
    append(4, 9);
    /* Nobody knows on which stack this is. */
    __pcce_trace_save(&saved, (void *)functions, 4);
    append(9, 99);
    __pcce_trace_back(&saved, (void *)functions, 5);
    append(2, 2);
    /* The switch is known. */
    __pcce_trace_save(&saved, (void *)functions, 4);
    append(9, 99);
    __pcce_trace_switch(&saved, (void *)functions, 3);
    __pcce_trace_back(&saved, (void *)functions, 3);
    append(2, 1);
    __pcce_trace_back(&saved, (void *)functions, 5);
    append(2, 3);
  } else
    return 1;
  return 0;
}
