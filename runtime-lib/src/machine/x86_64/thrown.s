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
thrown: # The token, and the exception that is about to be raised again.
    .zero SIZE + 8

    .macro text_into register
    movq thrown@GOTTPOFF(%rip), \register
    addq %fs:0, \register
    .endm
    # The unwinder's function of a name, into %rax. The stack is aligned, and %rdi is kept by the caller.
    .macro librarys name
    movq .Llibrary_\name(%rip), %rax
    testq %rax, %rax
    jne 1f
    movq $-1, %rdi # RTLD_NEXT
    leaq .Lname_\name(%rip), %rsi
    call dlsym@PLT
    movq %rax, .Llibrary_\name(%rip)
1:
    .endm
    .macro names name
    .local .Llibrary_\name
    .comm .Llibrary_\name,8,8
    .section .rodata.str1.1,"aMS",@progbits,1
.Lname_\name:
    .asciz "\name"
    .endm
    .macro save register, offset
    pushq \register
    .cfi_adjust_cfa_offset 8
    .cfi_offset \register, -\offset
    .endm
    .macro restore register
    popq \register
    .cfi_adjust_cfa_offset -8
    .cfi_restore \register
    .endm

    .text
    .globl _Unwind_RaiseException
    .type _Unwind_RaiseException,@function
_Unwind_RaiseException:
    .cfi_startproc
    # The walk over the stack finds the registers of the callers here.
    save %rbp, 16
    save %rbx, 24
    save %r12, 32
    save %r13, 40
    save %r14, 48
    save %r15, 56
    pushq %rdi
    .cfi_adjust_cfa_offset 8
.Lpoint:
    movq %rdi, %rsi
    text_into %rdi
    xorl %eax, %eax
    xchgq %rax, SIZE(%rdi)
    cmpq %rax, %rsi
    je 2f
    movl $SIZE, %esi
    leaq .Lpoint(%rip), %rdx
    movq %rsp, %rcx
    call pcce_token_at@PLT
2:
    librarys _Unwind_RaiseException
    popq %rdi
    .cfi_adjust_cfa_offset -8
    restore %r15
    restore %r14
    restore %r13
    restore %r12
    restore %rbx
    restore %rbp
    jmp *%rax
    .cfi_endproc
    .size _Unwind_RaiseException, . - _Unwind_RaiseException

    .globl _Unwind_Resume_or_Rethrow
    .type _Unwind_Resume_or_Rethrow,@function
_Unwind_Resume_or_Rethrow:
    .cfi_startproc
    # LLVM's unwinder may raise it without the function above, and the mark would stay.
    .weak __unw_getcontext
    cmpq $0, __unw_getcontext@GOTPCREL(%rip)
    jne 2f
    # Forced unwinding (`private_1`) raises nothing.
    cmpq $0, 16(%rdi)
    jne 2f
    text_into %rax
    movq %rdi, SIZE(%rax)
2:
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    librarys _Unwind_Resume_or_Rethrow
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size _Unwind_Resume_or_Rethrow, . - _Unwind_Resume_or_Rethrow

    # size_t pcce_thrown_token(char *buf, size_t size)
    .globl pcce_thrown_token
    .type pcce_thrown_token,@function
pcce_thrown_token:
    .cfi_startproc
    text_into %rdx
    xorl %eax, %eax
1:
    cmpb $0, (%rdx,%rax)
    je 2f
    incq %rax
    jmp 1b
2:
    testq %rsi, %rsi
    je 5f
    xorl %ecx, %ecx
    cmpq %rsi, %rax
    jae 4f # It does not fit.
3:
    cmpq %rax, %rcx
    je 4f
    movb (%rdx,%rcx), %r8b
    movb %r8b, (%rdi,%rcx)
    incq %rcx
    jmp 3b
4:
    movb $0, (%rdi,%rcx)
5:
    ret
    .cfi_endproc
    .size pcce_thrown_token, . - pcce_thrown_token

    names _Unwind_RaiseException
    names _Unwind_Resume_or_Rethrow
    .section .note.GNU-stack,"",@progbits
