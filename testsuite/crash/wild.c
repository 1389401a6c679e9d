// Writes the byte that the second argument names upwards, from where the first one says, until that fails.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

static char array[64];
static char byte;
volatile int sum;

NOINLINE static void fill(volatile char *to) {
  for (long i = 0; i < 1L << 40; i++)
    to[i] = byte;
}

NOINLINE static void parse(volatile char *line) {
  fill(line);
  sum++;
}

NOINLINE static void reads(volatile char *line) {
  parse(line);
  sum++;
}

NOINLINE static void *job(void *argument) {
  char line[64];
  parse(line);
  sum += line[1];
  return argument;
}

int main(int count, char **arguments) {
  const char *from = count > 2 ? arguments[1] : "";
  char line[64];
  byte = count > 2 ? (char)atoi(arguments[2]) : 0;
  if (!strcmp(from, "stack")) reads(line);
  if (!strcmp(from, "data")) reads(array);
  if (!strcmp(from, "thread")) {
    pthread_t thread;
    pthread_create(&thread, NULL, job, NULL);
    pthread_join(thread, NULL);
  }
  sum += line[2];
  return 0;
}
