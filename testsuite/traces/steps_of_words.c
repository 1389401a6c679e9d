// Calls a function for each letter of the argument.

#define OUT __attribute__((noinline))

static volatile int sum;

OUT static void a(void) {
  sum++;
}
OUT static void b(void) {
  sum += 2;
}
OUT static void c(void) {
  sum += 3;
}

int main(int count, char **words) {
  (void)count;
  for (char *at = words[1]; *at; at++) {
    if (*at == 'a')
      a();
    else if (*at == 'b')
      b();
    else
      c();
  }
  return 0;
}
