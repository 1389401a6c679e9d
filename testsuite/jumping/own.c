// A library with a setjmp of its own (-DLIBRARY), whose buffer is smaller than libc's.
struct registers {
  void *words[8];
};
#ifdef LIBRARY
__attribute__((naked, returns_twice)) int setjmp(struct registers *buffer) {
  __asm__("mov %rbx, (%rdi); mov %rbp, 8(%rdi); mov %r12, 16(%rdi); mov %r13, 24(%rdi); mov %r14, 32(%rdi)\n"
          "mov %r15, 40(%rdi); lea 8(%rsp), %rdx; mov %rdx, 48(%rdi); mov (%rsp), %rdx; mov %rdx, 56(%rdi)\n"
          "xor %eax, %eax; ret");
}
__attribute__((naked)) void longjmp(struct registers *buffer, int value) {
  __asm__("mov %esi, %eax; mov (%rdi), %rbx; mov 8(%rdi), %rbp; mov 16(%rdi), %r12; mov 24(%rdi), %r13\n"
          "mov 32(%rdi), %r14; mov 40(%rdi), %r15; mov 48(%rdi), %rsp; jmp *56(%rdi)");
}
#else
#include <stdio.h>
int setjmp(struct registers *) __attribute__((returns_twice));
void longjmp(struct registers *, int) __attribute__((noreturn));

static struct {
  struct registers registers;
  long behind[8];
} kept;

__attribute__((noinline)) static void deeper(int n) {
  if (n) deeper(n - 1);
  longjmp(&kept.registers, 5);
}
int main(void) {
  for (int i = 0; i < 8; i++) kept.behind[i] = i;
  int result = setjmp(&kept.registers);
  if (!result) deeper(3);
  for (int i = 0; i < 8; i++)
    if (kept.behind[i] != i) printf("word %d was overwritten\n", i);
  printf("%d\n", result);
  return 0;
}
#endif
