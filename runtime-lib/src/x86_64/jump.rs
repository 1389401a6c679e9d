//! `setjmp` and `longjmp`: what must be assembly, and how glibc keeps registers.
//!
//! The stack pointer is set to where control goes, before libc's `longjmp` is called, as if that was called from there.
//! So who interrupts finds the state of the activation that goes on, and that activation as the caller of `longjmp`;
//! or that of the one that has called `longjmp`, and that one as its caller. Between the two the chain is the one of
//! which nothing is known.

use core::arch::{asm, global_asm};
use core::mem::offset_of;

use crate::abi::layout;
use crate::fiber::UNKNOWN;
use crate::jump::{Landing, Saved, prepare};

/// Where `longjmp` sets the stack pointer, the program counter and `rbp`. `jmp_buf` of glibc begins with `rbx`, `rbp`,
/// `r12` to `r15`, `rsp` and the program counter. These three are mangled: turned to the left by 17 bits behind an
/// exclusive or with a word of the thread's descriptor.
///
/// # Safety
/// A buffer of `setjmp`.
pub unsafe fn jump_target(buffer: *const u64) -> (usize, usize, u64) {
    let guard: u64;
    // SAFETY: a word of the thread's descriptor, at the same place since there has been one.
    unsafe { asm!("mov {}, qword ptr fs:[0x30]", out(reg) guard, options(nostack, readonly, pure)) };
    // SAFETY: by the contract.
    let mangled = |i: usize| unsafe { buffer.add(i).read() }.rotate_right(17) ^ guard;
    (mangled(6) as usize, mangled(7) as usize, mangled(1))
}

// The program's `setjmp` and its like jump here, with the address of libc's function in %rax. A jump leads on: libc's
// function finds its caller's registers.
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
    "jmp rax",
    ".cfi_endproc",
    ".size __pcce_setjmp, . - __pcce_setjmp",
    ".popsection",
    id = const layout::TLS_ID,
    top = const layout::TLS_TOP,
    saved_id = const Saved::OFFSET + offset_of!(Saved, id),
    saved_top = const Saved::OFFSET + offset_of!(Saved, top),
    sealed = const Saved::OFFSET + offset_of!(Saved, sealed),
    seal = const Saved::SEAL,
);

// The program's `longjmp` and its like jump here, with the address of libc's function in %rax.
//
// The frame: a `Landing` (48 bytes), libc's function at 48, the buffer at 56, the value at 64. From the point on where
// the chain is unknown, the caller is the activation that goes on. Its registers are in the buffer, which %rdi has.
global_asm!(
    ".pushsection .text.__pcce_longjmp,\"ax\",@progbits",
    ".globl __pcce_longjmp",
    ".type __pcce_longjmp,@function",
    "__pcce_longjmp:",
    ".cfi_startproc",
    "sub rsp, 72",
    ".cfi_def_cfa_offset 80",
    "mov [rsp + 48], rax",
    "mov [rsp + 56], rdi",
    "mov [rsp + 64], rsi",
    "mov rsi, rsp",
    "call {prepare}",
    "test al, al",
    "mov rax, [rsp + 48]",
    "mov rdi, [rsp + 56]",
    "mov rsi, [rsp + 64]",
    "jne 2f",
    ".cfi_remember_state",
    "add rsp, 72",
    ".cfi_def_cfa_offset 8",
    "jmp rax",
    ".cfi_restore_state",
    "2:",
    "mov rcx, [rsp + {sp}]",
    "mov rdx, [rsp + {pc}]",
    "mov r8, [rsp + {landing_top}]",
    "lea r10, [rip + {unknown}]",
    "mov r11, qword ptr [rip + __pcce_tls@GOTTPOFF]",
    "mov qword ptr fs:[r11 + {top}], r10",
    ".cfi_def_cfa rcx, 0",
    ".cfi_register rip, rdx",
    // DW_CFA_expression: rbx, r12 to r15 at words of the buffer, rbp at a word of the frame.
    ".cfi_escape 0x10, 3, 2, 0x75, 0",
    ".cfi_escape 0x10, 12, 2, 0x75, 16",
    ".cfi_escape 0x10, 13, 2, 0x75, 24",
    ".cfi_escape 0x10, 14, 2, 0x75, 32",
    ".cfi_escape 0x10, 15, 2, 0x75, 40",
    ".cfi_escape 0x10, 6, 2, 0x77, {rbp}",
    "mov r10, [rsp + {landing_id}]",
    "mov qword ptr fs:[r11 + {id}], r10",
    "mov r10, [rsp + {landing_shadow}]",
    "mov qword ptr fs:[r11 + {shadow}], r10",
    "mov qword ptr fs:[r11 + {call}], 0",
    "mov rbp, [rsp + {rbp}]",
    ".cfi_same_value rbp",
    "mov rbx, [rdi]",
    "mov r12, [rdi + 16]",
    "mov r13, [rdi + 24]",
    "mov r14, [rdi + 32]",
    "mov r15, [rdi + 40]",
    ".cfi_same_value rbx",
    ".cfi_same_value r12",
    ".cfi_same_value r13",
    ".cfi_same_value r14",
    ".cfi_same_value r15",
    "mov [rcx - 8], rdx",
    "lea rsp, [rcx - 8]",
    ".cfi_def_cfa rsp, 8",
    ".cfi_offset rip, -8",
    "mov qword ptr fs:[r11 + {top}], r8",
    "jmp rax",
    // Never executed: who has this code is to have `libpcce_libc.a`, too, where that is linked.
    "jmp longjmp@PLT",
    ".cfi_endproc",
    ".size __pcce_longjmp, . - __pcce_longjmp",
    ".popsection",
    prepare = sym prepare,
    unknown = sym UNKNOWN,
    sp = const offset_of!(Landing, sp),
    pc = const offset_of!(Landing, pc),
    rbp = const offset_of!(Landing, rbp),
    landing_id = const offset_of!(Landing, id),
    landing_top = const offset_of!(Landing, top),
    landing_shadow = const offset_of!(Landing, shadow),
    id = const layout::TLS_ID,
    top = const layout::TLS_TOP,
    shadow = const layout::TLS_SHADOW,
    call = const layout::TLS_CALL,
);

const _: () = assert!(size_of::<Landing>() == 48);
