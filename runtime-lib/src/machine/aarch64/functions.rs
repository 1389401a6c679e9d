//! Functions in assembly, for things that Rust cannot express, and frames that foreign unwinding may pass.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::fiber::{begin, pcce_fiber_restore};
use crate::thread::{Creation, enter, leave};

// Runs `body(argument)` in an empty context. In assembly, so that exceptions and foreign unwinding may pass.
//
// The frame: the state found (64 bytes), body, argument, frame record.
global_asm!(
    ".pushsection .text.pcce_fiber_run,\"ax\",@progbits",
    ".type pcce_fiber_run,@function",
    ".globl pcce_fiber_run",
    ".p2align 2",
    "pcce_fiber_run:",
    ".cfi_startproc",
    "sub sp, sp, #96",
    ".cfi_def_cfa_offset 96",
    "stp x29, x30, [sp, #80]",
    ".cfi_offset x29, -16",
    ".cfi_offset x30, -8",
    "add x29, sp, #80",
    ".cfi_def_cfa x29, 16",
    "stp x0, x1, [sp, #64]",
    "mov x0, sp",
    "bl {begin}",
    "ldp x9, x0, [sp, #64]",
    "blr x9",
    "mov x0, sp",
    "bl {restore}",
    ".cfi_def_cfa sp, 96",
    "ldp x29, x30, [sp, #80]",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "add sp, sp, #96",
    ".cfi_def_cfa_offset 0",
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
    ".p2align 2",
    "pcce_task_run:",
    ".cfi_startproc",
    "mov x16, x1",
    "mov x0, x2",
    "br x16",
    ".cfi_endproc",
    ".size pcce_task_run, . - pcce_task_run",
    ".popsection",
);

// The start of a thread. `pthread_exit` and cancellation end the start routine in the middle, and destructors of
// thread-local objects run afterwards: the state must be the empty one for them. So this has a cleanup handler, as
// pthread_cleanup_push makes it in C; it works without unwind tables as well. In assembly, since Rust has no call that
// returns several times, and no frame that foreign unwinding may pass.
//
// The frame: the record and x19 (32 bytes), the result at 24, __pthread_unwind_buf_t (216 bytes) at 32.
global_asm!(
    ".pushsection .text.__pcce_thread_start,\"ax\",@progbits",
    ".type __pcce_thread_start,@function",
    ".globl __pcce_thread_start",
    ".hidden __pcce_thread_start",
    ".p2align 2",
    "__pcce_thread_start:",
    ".cfi_startproc",
    "sub sp, sp, #256",
    ".cfi_def_cfa_offset 256",
    "stp x29, x30, [sp]",
    ".cfi_offset x29, -256",
    ".cfi_offset x30, -248",
    "str x19, [sp, #16]",
    ".cfi_offset x19, -240",
    "mov x29, sp",
    "mov x19, x0",
    "bl {enter}",
    "add x0, sp, #32",
    "mov w1, wzr",
    "bl __sigsetjmp",
    "cbnz w0, 2f",
    "add x0, sp, #32",
    "bl __pthread_register_cancel",
    "ldr x0, [x19, {argument}]",
    "ldr x9, [x19, {start}]",
    "blr x9",
    "str x0, [sp, #24]",
    "add x0, sp, #32",
    "bl __pthread_unregister_cancel",
    "ldr x0, [sp, #24]",
    ".cfi_remember_state",
    "ldr x19, [sp, #16]",
    ".cfi_restore x19",
    "ldp x29, x30, [sp]",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "add sp, sp, #256",
    ".cfi_def_cfa_offset 0",
    "ret",
    ".cfi_restore_state",
    "2:",
    "bl {leave}",
    "add x0, sp, #32",
    "bl __pthread_unwind_next",
    "udf #0",
    ".cfi_endproc",
    ".size __pcce_thread_start, . - __pcce_thread_start",
    ".popsection",
    enter = sym enter,
    leave = sym leave,
    start = const offset_of!(Creation, start),
    argument = const offset_of!(Creation, argument),
);
