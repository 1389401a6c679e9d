#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static ssize_t writes(void *c, const char *text, size_t n) { (void)c; return write(1, text, n); }
static void handler(void) {}
int main(void) { atexit(handler); fputs("text\n", fopencookie(NULL, "w", (cookie_io_functions_t){ .write = writes }));
  return 0; }
