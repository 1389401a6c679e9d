// A stream that a library makes. An executable built as a whole does not know that its calls of stdio's functions call
// back: there the context ends. So functions that the stream may call know of no call what is in between.
//# Library: parts/streams.c
//# Chain[!module] write: on_write < <unknown>
//# Chain[module] write: on_write < <unknown fputs> < print < main
//# Chain[!module] write: on_write < <unknown fputs> < library_print < main
//# Chain[module] write: on_write < <unknown fputs> < library_print < main
//# Chain[lto] write: on_write < <unknown> < library_writes < main
//# Chain[link] write: on_write < library_writes < main
//# Chain[module] write: on_write < <unknown> < library_writes < main
//# Chain own: own < library_writes < main
//# Chain after: main
//# Flags: -fPIC
//# Fixed after
#include "show.h"
#include "parts/streams.h"

static ssize_t own(void *cookie, const char *text, size_t size) {
  (void)cookie, (void)text;
  SHOW("own");
  return (ssize_t)size;
}

NOINLINE static void print(const char *text, FILE *stream) { fputs(text, stream); KEEP; }

int main(int argc, char **argv) {
  (void)argc;
  FILE *stream = library_stream();
  print(argv[0], stream);
  library_print(argv[0], stream);
  library_writes(NULL);
  library_writes(own);
  SHOW("after");
  return 0;
}
