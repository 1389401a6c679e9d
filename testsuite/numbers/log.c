// The log of allocations.h.
#include <stdio.h>
#include <stdlib.h>

FILE *allocations_log(void) {
  static FILE *log;
  if (!log) {
    const char *name = getenv("ALLOCATIONS");
    log = fopen(name ? name : "/dev/null", "w");
    setvbuf(log, NULL, _IOFBF, 1 << 20);
  }
  return log;
}
