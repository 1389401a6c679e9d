void show(const char *);
__attribute__((visibility("hidden"))) void handle(int n) {
  static const char *const names[] = {"outside", "first", "second"};
  show(names[n]);
  __asm__ volatile("");
}
