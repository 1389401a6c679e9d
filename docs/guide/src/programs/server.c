#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct request { const char *path; };

static size_t length(const struct request *r) { return strlen(r->path); }
__attribute__((noinline)) static void answer(const struct request *r) {
  printf("%zu\n", length(r));
}
static void *worker(void *r) { sleep(1); answer(r); return NULL; }
static void *idle(void *x) { sleep(60); return x; }
__attribute__((noinline)) static void start(struct request *r) {
  pthread_t a, b;
  pthread_create(&a, NULL, idle, NULL);
  pthread_create(&b, NULL, worker, r);
  pthread_join(b, NULL);
}
int main(void) { struct request r = {NULL}; start(&r); return 0; }
