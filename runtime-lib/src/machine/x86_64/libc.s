# The functions with which executables replace libc's. The first call of any of them looks up all of libc's own
# functions (`__pcce_libc_NAME` for the runtime): when a signal handler jumps, `setjmp` has done so already. All are
# weak: a program, or a sanitizer, may have its own functions, which then take precedence. Where a library has this
# code, too, the executable's takes precedence.
#
# `interposed.s` has a line `interposed NAME, LEADS_TO` for each function (`pcce_abi::exports`).

    .macro libcs name # into %rax
    movq .Llibc_\name(%rip), %rax
    testq %rax, %rax
    jne 1f
    call .Lfind
    movq .Llibc_\name(%rip), %rax
1:
    .endm
    .macro is_own name
    leaq .Lown_\name(%rip), %r11
    cmpq \name@GOTPCREL(%rip), %r11
    .endm
    .macro interposed name, leads_to
    .text
    .weak \name
    .type \name,@function
\name:
.Lown_\name:
    .cfi_startproc
    libcs \name
    is_own \name
    jne 2f
    cmpq $0, 8+.Llibc_\name(%rip)
    je \leads_to@PLT
2:
    jmp *%rax
    .cfi_endproc
    .size \name, . - \name
    .local .Llibc_\name
    .comm .Llibc_\name,16,8
    .section .rodata.str1.1,"aMS",@progbits,1
.Lname_\name:
    .asciz "\name"
    .endm
    .include "interposed.s"
    .text
    .irp name, signal, __sysv_signal, sigaction, pthread_create, thrd_create
    .globl __pcce_libc_\name
    .hidden __pcce_libc_\name
    .type __pcce_libc_\name,@function
__pcce_libc_\name:
    .cfi_startproc
    is_own \name
    je 2f
    jmp *\name@GOTPCREL(%rip)
2:
    libcs \name
    jmp *%rax
    .cfi_endproc
    .size __pcce_libc_\name, . - __pcce_libc_\name
    .endr
    .type .Lfind,@function
# Called where the stack is not aligned, as at a function's entry. Keeps the arguments.
.Lfind:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    .purgem interposed
    .macro interposed name, leads_to
    leaq .Ldlsym(%rip), %rdi
    leaq .Lname_\name(%rip), %rsi
    leaq .Llibc_\name(%rip), %rdx
    xorl %ecx, %ecx
    .ifc \leads_to,__pcce_setjmp
    movl $1, %ecx
    .endif
    .ifc \leads_to,__pcce_longjmp
    movl $1, %ecx
    .endif
    call __pcce_find@PLT
    .endm
    .include "interposed.s"
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc
    .size .Lfind, . - .Lfind
    .type .Ldlsym,@function
.Ldlsym:
    .cfi_startproc
    jmp dlsym@PLT
    .cfi_endproc
    .size .Ldlsym, . - .Ldlsym
    .section .note.GNU-stack,"",@progbits
