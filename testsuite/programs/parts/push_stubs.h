// Stubs that call functions through the runtime's routines that push, as a linker binds calls of other modules: what
// the pass has pushed for the call of the stub is taken back, and the routine pushes the same in its place. Without the
// pass nothing was pushed, and the stub is a jump.
#ifndef PUSH_STUBS_H
#define PUSH_STUBS_H

#define PUSH_STUB(name, callee, routine)                          \
  __asm__(".text\n.globl " #name "\n.type " #name ",@function\n"  \
          #name ":\n.cfi_startproc\n"                             \
          "movq __pcce_tls@gottpoff(%rip), %r10\n"                \
          "movq %fs:8(%r10), %r11\n"                              \
          "andq $-2, %r11\n"                                      \
          "je 1f\n"                                               \
          "pushq 8(%r11)\n.cfi_adjust_cfa_offset 8\n"             \
          "popq %fs:(%r10)\n.cfi_adjust_cfa_offset -8\n"          \
          "pushq (%r11)\n.cfi_adjust_cfa_offset 8\n"              \
          "popq %fs:8(%r10)\n.cfi_adjust_cfa_offset -8\n"         \
          "movq 16(%r11), %r11\n"                                 \
          "movq " #callee "@GOTPCREL(%rip), %r10\n"               \
          "jmp *" #routine "@GOTPCREL(%rip)\n"                    \
          "1: jmp *" #callee "@GOTPCREL(%rip)\n"                  \
          ".cfi_endproc\n.size " #name ", . - " #name "\n");
// The same for a call that the pass leaves alone, as one of a function that never calls back: its site is that of the
// call of `__pcce_push_site` before.
#define PUSH_SITE                                                          \
  __asm__(".text\n.globl __pcce_push_site\n.type __pcce_push_site,@function\n"           \
          "__pcce_push_site:\n.cfi_startproc\n"                                   \
          "movq __pcce_tls@gottpoff(%rip), %r10\n"                         \
          "movq %fs:8(%r10), %r10\n"                                       \
          "movq 16(%r10), %r10\n"                                          \
          "movq %r10, __pcce_push_site_before(%rip)\n"                            \
          "ret\n.cfi_endproc\n.size __pcce_push_site, . - __pcce_push_site\n"            \
          ".local __pcce_push_site_before\n.comm __pcce_push_site_before,8,8\n");
#define SITE_STUB(name, callee, routine)                                   \
  __asm__(".text\n.globl " #name "\n.type " #name ",@function\n"           \
          #name ":\n.cfi_startproc\n"                                      \
          "movq __pcce_push_site_before(%rip), %r11\n"                            \
          "movq " #callee "@GOTPCREL(%rip), %r10\n"                        \
          "jmp *" #routine "@GOTPCREL(%rip)\n"                             \
          ".cfi_endproc\n.size " #name ", . - " #name "\n");
#endif
