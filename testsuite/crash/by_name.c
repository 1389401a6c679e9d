// `dies` makes no call at all, but another function, which nobody calls, may leave its activation to it.

typedef int (*function)(int);

volatile function none;
volatile int *nothing;

__attribute__((noinline)) int leaves(int n) {
  return none(n);
}

__attribute__((noinline)) int dies(int n) {
  return *nothing + n;
}

__attribute__((noinline)) int calls(int n) {
  dies(n);
  __asm__ volatile("");
  return 1;
}

function functions[] = {calls, leaves, dies};

int main(int argc, char **argv) {
  (void)argv;
  int result = functions[argc - 1](1);
  __asm__ volatile("");
  return result;
}
