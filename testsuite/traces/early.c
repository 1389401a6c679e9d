// A function that runs before libc is initialised, and before all constructors.
static volatile int seen;
__attribute__((noinline)) static void note(int n) { seen = n; }
static void early(int argc, char **argv, char **environment) {
  (void)argv, (void)environment;
  note(argc);
}
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **, char **) = early;
int main(void) {
  note(2);
  note(3);
}
