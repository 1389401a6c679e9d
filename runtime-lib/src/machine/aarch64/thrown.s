# Where an exception was thrown (`--pcce-thrown`).
#
# `_Unwind_RaiseException` raises every exception: for `throw`, `std::rethrow_exception`, a panic of Rust. The stack is
# whole then, and the point's token is kept for the thread. `throw;` calls `_Unwind_Resume_or_Rethrow`, which raises the
# same exception again: then the token stays.

    .set SIZE, 1024

    .section .tbss,"awT",@nobits
    .type thrown,@object
    .size thrown, SIZE + 8
    .balign 8
thrown: // The token, and the exception that is about to be raised again.
    .zero SIZE + 8

# Changes x9.
    .macro text_into register
    mrs \register, tpidr_el0
    adrp x9, :gottprel:thrown
    ldr x9, [x9, :gottprel_lo12:thrown]
    add \register, \register, x9
    .endm
# The unwinder's function of a name, into x16. x0 is kept by the caller.
    .macro librarys name
    adrp x16, .Llibrary_\name
    ldr x16, [x16, :lo12:.Llibrary_\name]
    cbnz x16, 1f
    mov x0, #-1 // RTLD_NEXT
    adrp x1, .Lname_\name
    add x1, x1, :lo12:.Lname_\name
    bl dlsym
    mov x16, x0
    adrp x9, .Llibrary_\name
    str x16, [x9, :lo12:.Llibrary_\name]
1:
    .endm
    .macro names name
    .local .Llibrary_\name
    .comm .Llibrary_\name,8,8
    .section .rodata.str1.1,"aMS",@progbits,1
.Lname_\name:
    .asciz "\name"
    .endm
    .macro save one, other, offset
    stp \one, \other, [sp, #\offset]
    .cfi_offset \one, \offset - 112
    .cfi_offset \other, \offset - 104
    .endm
    .macro restore one, other, offset
    ldp \one, \other, [sp, #\offset]
    .cfi_restore \one
    .cfi_restore \other
    .endm

    .text
    .globl _Unwind_RaiseException
    .type _Unwind_RaiseException,@function
    .p2align 2
_Unwind_RaiseException:
    .cfi_startproc
    # The walk over the stack finds the registers of the callers here.
    sub sp, sp, #112
    .cfi_def_cfa_offset 112
    save x29, x30, 0
    save x19, x20, 16
    save x21, x22, 32
    save x23, x24, 48
    save x25, x26, 64
    save x27, x28, 80
    str x0, [sp, #96]
.Lpoint:
    mov x1, x0
    text_into x0
    ldr x10, [x0, #SIZE]
    str xzr, [x0, #SIZE]
    cmp x1, x10
    b.eq 2f
    mov w1, #SIZE
    adr x2, .Lpoint
    mov x3, sp
    bl pcce_token_at
2:
    librarys _Unwind_RaiseException
    ldr x0, [sp, #96]
    restore x27, x28, 80
    restore x25, x26, 64
    restore x23, x24, 48
    restore x21, x22, 32
    restore x19, x20, 16
    restore x29, x30, 0
    add sp, sp, #112
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size _Unwind_RaiseException, . - _Unwind_RaiseException

    .globl _Unwind_Resume_or_Rethrow
    .type _Unwind_Resume_or_Rethrow,@function
    .p2align 2
_Unwind_Resume_or_Rethrow:
    .cfi_startproc
    # LLVM's unwinder may raise it without the function above, and the mark would stay.
    .weak __unw_getcontext
    adrp x9, :got:__unw_getcontext
    ldr x9, [x9, :got_lo12:__unw_getcontext]
    cbnz x9, 2f
    # Forced unwinding (`private_1`) raises nothing.
    ldr x9, [x0, #16]
    cbnz x9, 2f
    text_into x10
    str x0, [x10, #SIZE]
2:
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    str x0, [sp, #16]
    librarys _Unwind_Resume_or_Rethrow
    ldr x0, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    br x16
    .cfi_endproc
    .size _Unwind_Resume_or_Rethrow, . - _Unwind_Resume_or_Rethrow

    # size_t pcce_thrown_token(char *buf, size_t size)
    .globl pcce_thrown_token
    .type pcce_thrown_token,@function
    .p2align 2
pcce_thrown_token:
    .cfi_startproc
    text_into x2
    mov x3, x0
    mov x0, xzr
1:
    ldrb w4, [x2, x0]
    cbz w4, 2f
    add x0, x0, #1
    b 1b
2:
    cbz x1, 5f
    mov x5, xzr
    cmp x0, x1
    b.hs 4f // It does not fit.
3:
    cmp x5, x0
    b.eq 4f
    ldrb w4, [x2, x5]
    strb w4, [x3, x5]
    add x5, x5, #1
    b 3b
4:
    strb wzr, [x3, x5]
5:
    ret
    .cfi_endproc
    .size pcce_thrown_token, . - pcce_thrown_token

    names _Unwind_RaiseException
    names _Unwind_Resume_or_Rethrow
    .section .note.GNU-stack,"",@progbits
