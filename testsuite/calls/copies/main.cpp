#include "both.h"

jmp_buf buffer;
volatile int sum;
int other(int);

extern "C" __attribute__((noinline)) int take(int n) {
  char token[300];
  pcce_token(token, sizeof token);
  sum += token[0] + n;
  return 1;
}

int main() { return both(5) + other(3) != 13; }
