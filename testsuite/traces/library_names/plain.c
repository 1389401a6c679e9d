/* Without the pass. */
int regcomp(int n);
unsigned long strlen(const char *text);

int by_plain(int (*function)(int), int n) {
  return function(n) + regcomp(n) + (int)strlen("x");
}
