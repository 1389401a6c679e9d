/* A library that server.c loads. */
__attribute__((noinline)) static void third(void) {
  for (volatile int i = 0; i < 1000000; i++) continue;
}
void work(void) {
  third();
  __asm__("");
}
