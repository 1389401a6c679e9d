// Takes the number of each context of a recursion of DEPTH calls, ROUNDS times over.
//
//   seen ROUNDS DEPTH
#include <pcce.h>
#include <stdlib.h>

static volatile unsigned long long sum;
static void down(int depth);
static void (*volatile pointer)(int) = down;

__attribute__((noinline)) static void down(int depth) {
  sum += pcce_context();
  if (depth) pointer(depth - 1);
  __asm__ volatile("" ::: "memory");
}
int main(int count, char **arguments) {
  (void)count;
  for (int i = atoi(arguments[1]); i; i--) down(atoi(arguments[2]));
  return 0;
}
