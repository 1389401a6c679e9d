# The functions with which executables replace libc's. The first call of any of them looks up all of libc's own
# functions (`__pcce_libc_NAME` for the runtime): when a signal handler jumps, `setjmp` has done so already. All are
# weak: a program, or a sanitizer, may have its own functions, which then take precedence. Where a library has this
# code, too, the executable's takes precedence.
#
# `interposed.s` has a line `interposed NAME, LEADS_TO` for each function (`pcce_abi::exports`).

# Into x8, which the loader keeps when it binds names.
    .macro libcs name
    adrp x8, .Llibc_\name
    add x8, x8, :lo12:.Llibc_\name
    # Acquired: what else is known of the function was written before.
    ldar x8, [x8]
    cbnz x8, 1f
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    bl .Lfind
    ldp x29, x30, [sp], #16
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    adrp x8, .Llibc_\name
    ldr x8, [x8, :lo12:.Llibc_\name]
1:
    .endm
    .macro is_own name
    adrp x9, :got:\name
    ldr x9, [x9, :got_lo12:\name]
    adrp x10, .Lown_\name
    add x10, x10, :lo12:.Lown_\name
    cmp x9, x10
    .endm
    .macro interposed name, leads_to
    .text
    .weak \name
    .type \name,@function
    .p2align 2
\name:
.Lown_\name:
    .cfi_startproc
    libcs \name
    is_own \name
    b.ne 2f
    adrp x9, .Llibc_\name+8
    ldr x9, [x9, :lo12:.Llibc_\name+8]
    cbnz x9, 2f
    b \leads_to
2:
    mov x16, x8
    br x16
    .cfi_endproc
    .size \name, . - \name
    .local .Llibc_\name
    .comm .Llibc_\name,16,16
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
    .p2align 2
__pcce_libc_\name:
    .cfi_startproc
    is_own \name
    b.eq 2f
    mov x16, x9
    br x16
2:
    libcs \name
    mov x16, x8
    br x16
    .cfi_endproc
    .size __pcce_libc_\name, . - __pcce_libc_\name
    .endr
    .type .Lfind,@function
# Keeps the arguments.
.Lfind:
    .cfi_startproc
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset x29, -48
    .cfi_offset x30, -40
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    .purgem interposed
    .macro interposed name, leads_to
    adr x0, .Ldlsym
    adrp x1, .Lname_\name
    add x1, x1, :lo12:.Lname_\name
    adrp x2, .Llibc_\name
    add x2, x2, :lo12:.Llibc_\name
    mov w3, #0
    .ifc \leads_to,__pcce_setjmp
    mov w3, #1
    .endif
    .ifc \leads_to,__pcce_longjmp
    mov w3, #1
    .endif
    bl __pcce_find
    .endm
    .include "interposed.s"
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size .Lfind, . - .Lfind
    .type .Ldlsym,@function
.Ldlsym:
    .cfi_startproc
    b dlsym
    .cfi_endproc
    .size .Ldlsym, . - .Ldlsym
    .section .note.GNU-stack,"",@progbits
