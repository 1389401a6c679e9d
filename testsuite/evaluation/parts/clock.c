// A clock that stands still, for collections of programs that look at it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

enum { NOW = 1700000000 };

time_t time(time_t *to) {
  if (to)
    *to = NOW;
  return NOW;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone) {
  (void)zone;
  *to = (struct timeval){.tv_sec = NOW};
  return 0;
}

int clock_gettime(clockid_t clock, struct timespec *to) {
  if (clock == CLOCK_REALTIME) {
    *to = (struct timespec){.tv_sec = NOW};
    return 0;
  }
  static int (*real)(clockid_t, struct timespec *);
  if (!real)
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  return real(clock, to);
}
