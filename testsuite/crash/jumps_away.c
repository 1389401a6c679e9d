// Functions that leave their activations to the C library, which crashes.
#include <string.h>
static volatile int v;
static char *volatile nowhere;
__attribute__((noinline)) static unsigned long length(const char *text) {
  v++;
  return strlen(text);
}
static unsigned long (*volatile pointer)(const char *) = length;
__attribute__((noinline)) static unsigned long by_name(void) { return length(nowhere) + 1; }
__attribute__((noinline)) static unsigned long by_pointer(void) { return pointer(nowhere) + 1; }
int main(int count, char **arguments) {
  (void)arguments;
  return (int)(count > 1 ? by_pointer() : by_name());
}
