//! Functions and tables in assembly, for things that Rust cannot express, and frames that foreign unwinding may pass.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::abi::Tls;
use crate::fiber::{begin, pcce_fiber_restore};
use crate::runtimes::KNOWN;
use crate::thread::{Creation, enter, leave};

// Rust has no stable way to define an initial-exec thread-local variable with a C name.
// Protected visibility would stop the executable's instance from serving shared libraries.
global_asm!(
    ".section .tbss.__pcce_tls,\"awT\",@nobits",
    ".globl __pcce_tls",
    ".type __pcce_tls,@object",
    ".size __pcce_tls,{size}",
    ".p2align 6",
    "__pcce_tls:",
    ".zero {size}",
    ".text",
    size = const size_of::<Tls>(),
);

// Runs `body(argument)` in an empty context. In assembly, so that exceptions and foreign unwinding may pass.
//
// The frame: the state found (64 bytes), body, argument.
global_asm!(
    ".pushsection .text.pcce_fiber_run,\"ax\",@progbits",
    ".type pcce_fiber_run,@function",
    ".globl pcce_fiber_run",
    "pcce_fiber_run:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "sub rsp, 80",
    "mov [rbp - 16], rdi",
    "mov [rbp - 8], rsi",
    "mov rdi, rsp",
    "call {begin}",
    "mov rdi, [rbp - 8]",
    "call [rbp - 16]",
    "mov rdi, rsp",
    "call {restore}",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size pcce_fiber_run, . - pcce_fiber_run",
    ".popsection",
    begin = sym begin,
    restore = sym pcce_fiber_restore,
);

// Runs `body(argument)`, with the task in the first register: a jump, so that exceptions and unwinding that pass the
// caller may pass here.
global_asm!(
    ".pushsection .text.pcce_task_run,\"ax\",@progbits",
    ".type pcce_task_run,@function",
    ".globl pcce_task_run",
    "pcce_task_run:",
    ".cfi_startproc",
    "mov rdi, rdx",
    "jmp rsi",
    ".cfi_endproc",
    ".size pcce_task_run, . - pcce_task_run",
    ".popsection",
);

// The start of a thread. `pthread_exit` and cancellation end the start routine in the middle, and destructors of
// thread-local objects run afterwards: the state must be the empty one for them. So this has a cleanup handler, as
// pthread_cleanup_push makes it in C; it works without unwind tables as well. In assembly, since Rust has no call that
// returns several times, and no frame that foreign unwinding may pass.
//
// The frame: __pthread_unwind_buf_t (104 bytes), the result at 112.
global_asm!(
    ".pushsection .text.__pcce_thread_start,\"ax\",@progbits",
    ".type __pcce_thread_start,@function",
    ".globl __pcce_thread_start",
    ".hidden __pcce_thread_start",
    "__pcce_thread_start:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbx, -16",
    "sub rsp, 128",
    ".cfi_def_cfa_offset 144",
    "mov rbx, rdi",
    "call {enter}",
    "mov rdi, rsp",
    "xor esi, esi",
    "call __sigsetjmp@PLT",
    "test eax, eax",
    "jne 2f",
    "mov rdi, rsp",
    "call __pthread_register_cancel@PLT",
    "mov rdi, [rbx + {argument}]",
    "call [rbx + {start}]",
    "mov [rsp + 112], rax",
    "mov rdi, rsp",
    "call __pthread_unregister_cancel@PLT",
    "mov rax, [rsp + 112]",
    ".cfi_remember_state",
    "add rsp, 128",
    ".cfi_def_cfa_offset 16",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_restore_state",
    "2:",
    "call {leave}",
    "mov rdi, rsp",
    "call __pthread_unwind_next@PLT",
    "ud2",
    ".cfi_endproc",
    ".size __pcce_thread_start, . - __pcce_thread_start",
    ".popsection",
    enter = sym enter,
    leave = sym leave,
    start = const offset_of!(Creation, start),
    argument = const offset_of!(Creation, argument),
);

// Constructors. They are called by the exported names, so that of several runtimes in a process, the executable's one
// is started. They come before the program's own constructors, which may take contexts: a process that has given
// numbers can no longer share a file of them.
global_asm!(
    ".pushsection .init_array.00001,\"aw\",@init_array",
    ".p2align 3",
    ".quad __pcce_threads_start",
    ".quad __pcce_crash_start",
    ".quad __pcce_sample_start",
    ".quad __pcce_numbers_start",
    ".popsection",
);

// Says where the runtime is ([`crate::runtimes`]): an ELF note, since linkers hide no note.
global_asm!(
    ".pushsection .note.pcce,\"a\",@note",
    ".p2align 2",
    ".long 5, 16, 2",
    ".asciz \"PCCE\"",
    ".p2align 2",
    "1:",
    ".quad {known} - 1b",
    ".weak __ehdr_start",
    ".hidden __ehdr_start",
    ".quad __ehdr_start - 1b",
    ".popsection",
    known = sym KNOWN,
);
