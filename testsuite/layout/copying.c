/* Its code copies a structure by memcpy, which no call in the source names. Prints its contexts. */
#include <stdio.h>
#include "pcce.h"
struct large { char bytes[4096]; };
__attribute__((noinline)) static int report(struct large *to, const struct large *from) {
  char token[256];
  *to = *from;
  pcce_token(token, sizeof token);
  puts(token);
  return to->bytes[2];
}
__attribute__((noinline)) static int through(struct large *to, const struct large *from) {
  return report(to, from) + 1;
}
int main(int count, char **words) {
  static struct large one, other;
  other.bytes[2] = (char)count;
  return through(&one, &other) + report(&one, &other) - 3;
}
