// A crash in code that is inlined twice, and one that is not.
static int deref(int *p) { return *p + 1; }
static int outer(int *p) { return deref(p) + 2; }
__attribute__((noinline)) static int apart(int *p) { return *p + 3; }
int main(int count, char **arguments) {
  int *null = (int *)(long)(count / 8);
  (void)arguments;
  if (count > 1) return apart(null) + 1;
  return outer(null) + 1;
}
