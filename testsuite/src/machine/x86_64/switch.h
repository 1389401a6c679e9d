// `switch_stack` keeps the registers of the ABI on the stack that is left.
__asm__(".pushsection .text\n"
        ".globl switch_stack\n"
        ".type switch_stack, @function\n"
        "switch_stack:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size switch_stack, . - switch_stack\n"
        ".popsection\n");

// A stack that enters `entry` when it is switched to.
static inline void *new_stack(void *memory, size_t size, void (*entry)(void)) {
  uintptr_t *top = (uintptr_t *)(((uintptr_t)memory + size) & ~(uintptr_t)15);
  *--top = 0; // where `entry` would return to
  *--top = (uintptr_t)entry;
  for (int i = 0; i < 6; i++) *--top = 0;
  return top;
}
