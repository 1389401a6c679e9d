// With -fno-plt a function of a library is called through the word that the loader fills.

#include <string.h>

char *volatile nowhere = (char *)8;

__attribute__((noinline)) int measures(char *text) {
  int result = (int)strlen(text);
  __asm__ volatile("");
  return result + 1;
}

int main(void) {
  int result = measures(nowhere);
  __asm__ volatile("");
  return result;
}
