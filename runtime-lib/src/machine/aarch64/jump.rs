//! `setjmp` and `longjmp`: their assembly, and glibc's way to keep registers.
//!
//! The state becomes the other activation's before libc's `longjmp` is called, which runs libc's cleanups. So a handler
//! that interrupts meanwhile finds a state that is not that of the functions on the stack. One of the return addresses
//! is then in `__pcce_longjmp`: readers know by its name that the addresses, and not the id, are the context.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::abi::layout;
use crate::jump::{Saved, prepare};

/// Offset of the runtime's words in a buffer of `setjmp`: after the registers, a word for whether signals are kept, and
/// the set of the 64 signals that exist. Buffers of `pthread_cleanup_push` end with the three words, and use them after
/// `setjmp`.
pub const SAVED_AT: usize = 192;

/// Offset of a word that glibc leaves free between the registers. With guarded control stacks it would use the word; no
/// image with the runtime has them. libc mangles the stack pointer with a word that no other image can read, so
/// `setjmp` puts it here as it is.
const SP_AT: usize = 96;

/// The stack pointer that `longjmp` sets. It is not known of a buffer that the program's `setjmp` has not written.
///
/// # Safety
/// A buffer of `setjmp`.
pub unsafe fn jump_target(buffer: *const u64) -> usize {
    // SAFETY: by the contract.
    unsafe { buffer.byte_add(SP_AT).read() as usize }
}

// The program's `setjmp` and its like jump here, with the address of libc's function in x8, which the loader keeps when
// it binds names. The code jumps on to that function, which so finds its caller's registers.
global_asm!(
    ".pushsection .text.__pcce_setjmp,\"ax\",@progbits",
    ".globl __pcce_setjmp",
    ".type __pcce_setjmp,@function",
    ".p2align 2",
    "__pcce_setjmp:",
    ".cfi_startproc",
    "mrs x9, tpidr_el0",
    "adrp x10, :gottprel:__pcce_tls",
    "ldr x10, [x10, :gottprel_lo12:__pcce_tls]",
    "add x9, x9, x10",
    "ldr x10, [x9, {id}]",
    "ldr x11, [x9, {top}]",
    "str x10, [x0, {saved_id}]",
    "str x11, [x0, {saved_top}]",
    "eor x10, x10, x11",
    "mov x11, {seal_low}",
    "movk x11, {seal_high}, lsl #16",
    "eor x10, x10, x11",
    "str x10, [x0, {sealed}]",
    "mov x10, sp",
    "str x10, [x0, {sp_at}]",
    ".weak __pcce_trace_kept",
    "adrp x9, :got:__pcce_trace_kept",
    "ldr x9, [x9, :got_lo12:__pcce_trace_kept]",
    "cbz x9, 2f",
    // As for `weak_address!`.
    ".weak __ehdr_start",
    ".hidden __ehdr_start",
    "adrp x10, __ehdr_start",
    "add x10, x10, :lo12:__ehdr_start",
    "cmp x9, x10",
    "b.ne 3f",
    "2:",
    "mov x16, x8",
    "br x16",
    // The tracer gets the caller's stack pointer.
    "3:",
    "stp x29, x30, [sp, #-48]!",
    ".cfi_def_cfa_offset 48",
    ".cfi_offset x29, -48",
    ".cfi_offset x30, -40",
    "stp x0, x1, [sp, #16]",
    "str x8, [sp, #32]",
    "add x0, sp, #48",
    "blr x9",
    "ldr x8, [sp, #32]",
    "ldp x0, x1, [sp, #16]",
    "ldp x29, x30, [sp], #48",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "b 2b",
    ".cfi_endproc",
    ".size __pcce_setjmp, . - __pcce_setjmp",
    ".popsection",
    id = const layout::TLS_ID,
    top = const layout::TLS_TOP,
    saved_id = const SAVED_AT + offset_of!(Saved, id),
    saved_top = const SAVED_AT + offset_of!(Saved, top),
    sealed = const SAVED_AT + offset_of!(Saved, sealed),
    seal_low = const Saved::SEAL & 0xffff,
    seal_high = const Saved::SEAL >> 16,
    sp_at = const SP_AT,
);

// The program's `longjmp` and its like jump here, with the address of libc's function in x8.
global_asm!(
    ".pushsection .text.__pcce_longjmp,\"ax\",@progbits",
    ".globl __pcce_longjmp",
    ".type __pcce_longjmp,@function",
    ".p2align 2",
    "__pcce_longjmp:",
    ".cfi_startproc",
    "stp x29, x30, [sp, #-48]!",
    ".cfi_def_cfa_offset 48",
    ".cfi_offset x29, -48",
    ".cfi_offset x30, -40",
    "stp x0, x1, [sp, #16]",
    "str x8, [sp, #32]",
    "bl {prepare}",
    "ldp x0, x1, [sp, #16]",
    "ldr x8, [sp, #32]",
    "blr x8",
    "udf #0",
    // Never executed: a program with this code must have `libpcce_libc.a`, too, where that is linked.
    "b longjmp",
    ".cfi_endproc",
    ".size __pcce_longjmp, . - __pcce_longjmp",
    ".popsection",
    prepare = sym prepare,
);
