int helper(int n) {
  return n > 1 ? n * 2 : n;
}
int regcomp(int n) {
  return n & 1 ? helper(n) : helper(n + 1) + helper(n);
}
unsigned long strlen(const char *text) {
  unsigned long n = 0;
  while (text[n]) n++;
  return n + (unsigned long)helper(0);
}
