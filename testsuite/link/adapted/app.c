/* Work that calls through pointers on a cycle, and work that recurses directly. The first argument chooses, the second
   says how much of it, and with a third one tokens are printed. */
#include <pcce.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

long step_of_library(long value);

typedef long step(int depth);
static step *const *steps;
static int loud;
static long total;

NOINLINE static long leaf(int n) {
  if (loud) printf("%d [%s]\n", n, PCCE_TOKEN);
  for (int i = 0; i < 50; i++) total = total * 31 + n + i;
  return step_of_library(total);
}
NOINLINE static long walk(int depth) {
  return depth > 0 ? steps[depth % 5](depth - 1) : leaf(depth);
}
NOINLINE static long one(int depth) {
  return walk(depth) + 1;
}
NOINLINE static long two(int depth) {
  return depth % 7 ? walk(depth) : leaf(depth);
}
NOINLINE static long three(int depth) {
  return leaf(depth) + walk(depth - 1);
}
NOINLINE static long four(int depth) {
  return walk(depth) ^ 4;
}
NOINLINE static long tree(int depth) {
  return depth > 0 ? tree(depth - 1) + tree(depth - 2) : leaf(depth);
}
int main(int count, char **arguments) {
  static step *const all[] = {one, one, two, three, four};
  steps = all;
  if (count < 3) return 2;
  loud = count > 3;
  long sum = 0;
  for (int i = 0; i < atoi(arguments[2]); i++)
    sum += strcmp(arguments[1], "pointers") == 0 ? walk(i % 23) : tree(i % 6);
  printf("sum %ld\n", sum & 1);
  return 0;
}
