//! `setjmp` and `longjmp`: their assembly, and glibc's way to keep registers.
//!
//! The state becomes the other activation's before libc's `longjmp` is called, which runs libc's cleanups. So a handler
//! that interrupts meanwhile finds a state that is not that of the functions on the stack. One of the return addresses
//! is then in `__pcce_longjmp`: readers know by its name that the addresses, and not the id, are the context.

use core::arch::{asm, global_asm};
use core::mem::offset_of;

use crate::abi::layout;
use crate::jump::{Saved, prepare};

/// Offset of the runtime's words in a buffer of `setjmp`: after the registers, a word for whether signals are kept, and
/// the set of the 64 signals that exist. Buffers of `pthread_cleanup_push` end with the three words, and use them after
/// `setjmp`. With shadow stacks libc would use one of the words; no image with the runtime has shadow stacks.
pub const SAVED_AT: usize = 80;

/// The stack pointer that `longjmp` sets: the seventh word of glibc's `jmp_buf`, which is mangled: an exclusive or with
/// a word of the thread's descriptor, then rotated to the left by 17 bits.
///
/// # Safety
/// A buffer of `setjmp`.
pub unsafe fn jump_target(buffer: *const u64) -> usize {
    let guard: u64;
    // SAFETY: a word of the thread's descriptor, at the same place since there has been one.
    unsafe { asm!("mov {}, qword ptr fs:[0x30]", out(reg) guard, options(nostack, readonly, pure)) };
    // SAFETY: by the contract.
    (unsafe { buffer.add(6).read() }.rotate_right(17) ^ guard) as usize
}

// The program's `setjmp` and its like jump here, with the address of libc's function in %rax. The code jumps on to that
// function, which so finds its caller's registers.
global_asm!(
    ".pushsection .text.__pcce_setjmp,\"ax\",@progbits",
    ".globl __pcce_setjmp",
    ".type __pcce_setjmp,@function",
    "__pcce_setjmp:",
    ".cfi_startproc",
    "mov r11, qword ptr [rip + __pcce_tls@GOTTPOFF]",
    "mov rcx, qword ptr fs:[r11 + {id}]",
    "mov rdx, qword ptr fs:[r11 + {top}]",
    "mov [rdi + {saved_id}], rcx",
    "mov [rdi + {saved_top}], rdx",
    "xor rcx, rdx",
    "xor rcx, {seal}",
    "mov [rdi + {sealed}], rcx",
    ".weak __pcce_trace_kept",
    "mov rdx, qword ptr [rip + __pcce_trace_kept@GOTPCREL]",
    "test rdx, rdx",
    "je 2f",
    // As for `weak_address!`.
    ".weak __ehdr_start",
    ".hidden __ehdr_start",
    "lea rcx, [rip + __ehdr_start]",
    "cmp rdx, rcx",
    "jne 3f",
    "2:",
    "jmp rax",
    // The tracer gets the caller's stack pointer.
    "3:",
    "push rax",
    ".cfi_def_cfa_offset 16",
    "push rdi",
    ".cfi_def_cfa_offset 24",
    "push rsi",
    ".cfi_def_cfa_offset 32",
    "lea rdi, [rsp + 32]",
    "call rdx",
    "pop rsi",
    ".cfi_def_cfa_offset 24",
    "pop rdi",
    ".cfi_def_cfa_offset 16",
    "pop rax",
    ".cfi_def_cfa_offset 8",
    "jmp rax",
    ".cfi_endproc",
    ".size __pcce_setjmp, . - __pcce_setjmp",
    ".popsection",
    id = const layout::TLS_ID,
    top = const layout::TLS_TOP,
    saved_id = const SAVED_AT + offset_of!(Saved, id),
    saved_top = const SAVED_AT + offset_of!(Saved, top),
    sealed = const SAVED_AT + offset_of!(Saved, sealed),
    seal = const Saved::SEAL,
);

// The program's `longjmp` and its like jump here, with the address of libc's function in %rax.
global_asm!(
    ".pushsection .text.__pcce_longjmp,\"ax\",@progbits",
    ".globl __pcce_longjmp",
    ".type __pcce_longjmp,@function",
    "__pcce_longjmp:",
    ".cfi_startproc",
    "sub rsp, 24",
    ".cfi_def_cfa_offset 32",
    "mov [rsp], rax",
    "mov [rsp + 8], rdi",
    "mov [rsp + 16], rsi",
    "call {prepare}",
    "mov rdi, [rsp + 8]",
    "mov rsi, [rsp + 16]",
    "call [rsp]",
    "ud2",
    // Never executed: a program with this code must have `libpcce_libc.a`, too, where that is linked.
    "jmp longjmp@PLT",
    ".cfi_endproc",
    ".size __pcce_longjmp, . - __pcce_longjmp",
    ".popsection",
    prepare = sym prepare,
);
