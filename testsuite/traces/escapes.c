// Functions whose names in the object file control terminals, browsers, and the direction of writing.
#include <pcce.h>
#include <stdio.h>
#include <stdlib.h>
#define APART __attribute__((noinline))
APART int markup(int n) __asm__("</text><script>alert(1)</script>");
APART int quotes(int n) __asm__("q\"u,o'te\\x&amp;");
APART int control(int n) __asm__("esc\033[31m\007\r\nnew;semi main\177");
APART int direction(int n) __asm__("\xe2\x80\xae rtl\xc2\x9b"
                                   "31m\xf3\xa0\x81\x81");
volatile int sum;
int direction(int n) {
  sum++;
  printf("T %s\n", PCCE_TOKEN);
  free(malloc(100));
  for (int i = 0; i < n * 100000000; i++)
    sum++;
  return n;
}
int control(int n) { return direction(n) + 1; }
int quotes(int n) { return control(n) + 1; }
int markup(int n) { return quotes(n) + 1; }
int main(void) { return markup(1) == 0; }
