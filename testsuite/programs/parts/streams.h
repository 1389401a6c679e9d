#include <stdio.h>
FILE *library_stream(void);
void library_print(const char *text, FILE *stream);
void library_writes(ssize_t (*write)(void *, const char *, size_t));
