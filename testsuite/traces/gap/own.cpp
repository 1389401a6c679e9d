extern "C" int catches(void (*)(int), int);
extern "C" void log(int);
struct Guard { int i; __attribute__((noinline)) Guard(int i) : i(i) { log(i); }
  __attribute__((noinline)) ~Guard() { log(-i); } };
struct Base { virtual void named(int); };
void Base::named(int) { Guard g(3); }
Base base; Base *volatile pointer = &base;
__attribute__((noinline)) void thrower(int n) { Guard g(2); if (n) throw 5; }
__attribute__((noinline)) void loses(int n) { Guard g(1); catches(thrower, n); pointer->named(n); }
__attribute__((noinline)) void after(int) { Guard g(7); }
int main() { Guard g(0); loses(1); after(2); return 0; }
