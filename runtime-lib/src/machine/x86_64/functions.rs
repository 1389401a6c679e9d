//! Functions in assembly, for things that Rust cannot express, and frames that foreign unwinding may pass.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::fiber::{begin, pcce_fiber_restore};
use crate::thread::{Creation, enter, leave};

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
