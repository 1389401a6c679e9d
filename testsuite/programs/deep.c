// A hundred thousand frames deep: equal pushed frames are one entry of the token, and a token in too
// small a buffer is cut, says so, and can still be decoded.
//# Chain[!verify] same: same*100001 < start
//# Chain[verify] same: same*2001 < start
//# Chain zigzag: zig < ... < <truncated>
//# Chain small: zig < zag < zig < ... < <truncated>
//# Chain after: start
//# Flags[!verify]: -DDEPTH=100000
//# Flags[verify]: -DDEPTH=2000
#include "show.h"
#include <pthread.h>
#include <stdlib.h>

// Verify mode decodes each new context from the innermost frame to the outermost: fewer frames there.

NOINLINE static int same(int n) {
  if (n > 0) {
    int result = same(n - 1) + 1;
    KEEP;
    return result;
  }
  SHOW("same");
  return 0;
}

// The choice between the two calls depends on the depth irregularly, so runs are short.
NOINLINE static int zag(int n, unsigned noise);

NOINLINE static int zig(int n, unsigned noise) {
  int result = 1;
  if (n == 0) {
    SHOW("zigzag");
    SHOW_IN("small", 128);
    char tiny[8] = "unused";
    // Not even the smallest token fits.
    pcce_token(tiny, sizeof tiny);
    printf("tiny '%s'\n", tiny);
    return 0;
  }
  noise = noise * 1664525 + 1013904223;
  if (noise >> 31) {
    __asm__ volatile("# one site");
    result += zag(n - 1, noise);
    __asm__ volatile("# done");
  } else {
    __asm__ volatile("# and another: the optimiser must not merge them");
    result -= zag(n - 1, noise);
    __asm__ volatile("# too");
  }
  KEEP;
  return result;
}

NOINLINE static int zag(int n, unsigned noise) {
  int result = zig(n, noise);
  KEEP;
  return result + 1;
}

static void *start(void *argument) {
  printf("%d\n", same(DEPTH) == DEPTH);
  printf("%d\n", zig(DEPTH, 1) != DEPTH + 1);
  SHOW("after");
  return argument;
}

int main(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)1 << 30);
  if (pthread_create(&thread, &attributes, start, NULL) != 0) return 1;
  return pthread_join(thread, NULL);
}
