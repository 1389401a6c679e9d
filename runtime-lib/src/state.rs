//! The thread-local block: its definition and the access to it.

use core::arch::{asm, global_asm};

use crate::abi::{Link, Tls};

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

/// What every instrumented object refers to: an object of another ABI version does not link.
#[unsafe(no_mangle)]
pub static __pcce_abi_v7: u8 = crate::abi::VERSION as u8;

/// The calling thread's block.
#[inline(always)]
pub fn tls() -> *mut Tls {
    let block: *mut Tls;
    // SAFETY: reads the thread pointer and the block's offset from it, as the psABI's
    // initial-exec sequence does; the linker relaxes it where it can. Neither changes while a function of the runtime runs.
    unsafe {
        asm!(
            "mov {block}, qword ptr fs:[0]",
            "add {block}, qword ptr [rip + __pcce_tls@GOTTPOFF]",
            block = out(reg) block,
            options(pure, nostack, readonly),
        );
    }
    block
}

/// The calling thread's id, with what it counts from, and innermost pushed frame.
#[inline(always)]
pub fn current() -> (u64, Link) {
    // SAFETY: this thread's block.
    unsafe { read(tls()) }
}

/// The same of the thread whose block it is.
///
/// # Safety
/// The calling thread's block.
#[inline(always)]
pub unsafe fn read(block: *const Tls) -> (u64, Link) {
    // SAFETY: the block belongs to this thread and lives as long as it. Volatile, since emitted code
    // of the same thread wrote it.
    unsafe { ((&raw const (*block).id).read_volatile(), (&raw const (*block).top).read_volatile()) }
}
