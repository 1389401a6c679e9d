// Streams and conversions of the program's own: stdio's functions call back, so their calls push. A module by itself
// does not know whether all calls do, nor does one whose code may be a shared library's.
//# Chain write: on_write < <fputs> < print < main
//# Chain[module] write: on_write < <unknown fputs> < print < main
//# Chain[link, pic] write: on_write < <unknown fputs> < print < main
//# Chain[link, pic-no-pie] write: on_write < <unknown fputs> < print < main
//# Chain convert: on_convert < <printf> < convert < main
//# Chain[module] convert: on_convert < <unknown printf> < convert < main
//# Chain[link, pic] convert: on_convert < <unknown printf> < convert < main
//# Chain[link, pic-no-pie] convert: on_convert < <unknown printf> < convert < main
//# Chain close: on_close < <fclose> < main
//# Chain[module] close: on_close < <unknown fclose> < main
//# Chain[link, pic] close: on_close < <unknown fclose> < main
//# Chain[link, pic-no-pie] close: on_close < <unknown fclose> < main
//# Chain after: main
//# Flags: -Wno-format
//# Fixed after
//# Shapes
#define _GNU_SOURCE
#include "show.h"
#include <printf.h>

static ssize_t on_write(void *cookie, const char *text, size_t size) {
  (void)cookie, (void)text;
  SHOW("write");
  return (ssize_t)size;
}

static int on_close(void *cookie) {
  (void)cookie;
  SHOW("close");
  return 0;
}

static int on_convert(FILE *stream, const struct printf_info *info, const void *const *arguments) {
  (void)info;
  SHOW("convert");
  return fprintf(stream, "<%d>", **(const int *const *)arguments);
}

static int on_arguments(const struct printf_info *info, size_t count, int *types, int *sizes) {
  (void)info;
  if (count > 0) types[0] = PA_INT, sizes[0] = sizeof(int);
  return 1;
}

NOINLINE static void print(const char *text, FILE *stream) { fputs(text, stream); KEEP; }
NOINLINE static void convert(int n) { printf("%W\n", n); fflush(stdout); KEEP; }

int main(int argc, char **argv) {
  (void)argc;
  FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = on_write, .close = on_close});
  setvbuf(stream, NULL, _IONBF, 0);
  print(argv[0], stream);
  register_printf_specifier('W', on_convert, on_arguments);
  convert(42);
  fclose(stream);
  SHOW("after");
  return 0;
}
