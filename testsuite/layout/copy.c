/* A memcpy with thread-local storage of its own, which comes before the storage of others. */
#include <stddef.h>
static __thread char calls[512] __attribute__((aligned(256))) = {1};
void *memcpy(void *to, const void *from, size_t size) {
  char *volatile out = to;
  const char *in = from;
  for (size_t i = 0; i < size; i++) out[i] = in[i];
  calls[0]++;
  return to;
}
