// `switch_stack` keeps the registers of the ABI on the stack that is left.
__asm__(".pushsection .text\n"
        ".globl switch_stack\n"
        ".type switch_stack, @function\n"
        ".p2align 2\n"
        "switch_stack:\n"
        "  stp x29, x30, [sp, #-176]!\n"
        "  stp x19, x20, [sp, #16]\n  stp x21, x22, [sp, #32]\n  stp x23, x24, [sp, #48]\n"
        "  stp x25, x26, [sp, #64]\n  stp x27, x28, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  str x30, [sp, #160]\n" // where it goes on
        "  mov x9, sp\n"
        "  str x9, [x0]\n"
        "  mov sp, x1\n"
        "  ldp x19, x20, [sp, #16]\n  ldp x21, x22, [sp, #32]\n  ldp x23, x24, [sp, #48]\n"
        "  ldp x25, x26, [sp, #64]\n  ldp x27, x28, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  ldr x9, [sp, #160]\n"
        "  ldp x29, x30, [sp], #176\n"
        "  ret x9\n"
        ".size switch_stack, . - switch_stack\n"
        ".popsection\n");

// A stack that enters `entry` when it is switched to.
static inline void *new_stack(void *memory, size_t size, void (*entry)(void)) {
  uintptr_t *top = (uintptr_t *)(((uintptr_t)memory + size) & ~(uintptr_t)15);
  for (int i = 0; i < 22; i++) *--top = 0; // `entry` returns to 0
  top[20] = (uintptr_t)entry;
  return top;
}
