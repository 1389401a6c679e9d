#define MUSTTAIL __attribute__((musttail)) return

typedef int left_function(const char *name);
typedef long left_long_function(const char *name, long n);
typedef void *left_thread_function(void *name);

// parts/left_middle.c
extern left_function *left_next, left_middle, left_ordinary, left_stays;
extern left_thread_function *left_thread_next, left_thread;

// parts/left_inner.c
extern left_function left_inner, left_silent;
extern left_long_function left_long, left_silent_long;
extern left_thread_function left_thread_inner;
