// The API in a program without the pass: it links, and its answers are empty.
#include <pcce.h>
#include <stdio.h>

int main(void) {
  return printf("[%s] %llu\n", PCCE_TOKEN, (unsigned long long)pcce_context()) != 5;
}
