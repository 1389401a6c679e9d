//! AArch64.

#[cfg(any(test, feature = "freestanding"))]
mod memory;

use core::arch::{asm, global_asm};

#[cfg(test)]
pub(super) use self::memory::{memcpy, memmove, memset, strlen};

/// The size in bytes of the smallest pages that a kernel may have.
pub const PAGE_SIZE: usize = 4096;

/// The size in bytes of the largest pages that a kernel may have.
pub const LARGEST_PAGE: usize = 0x1_0000;

/// The address of a symbol that need not be there, out of the table that the loader fills: null where nothing defines
/// it.
#[macro_export]
macro_rules! weak_address {
    ($symbol:literal) => {{
        let address: *const u8;
        // SAFETY: reads a word that the loader has written, before any code runs.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $symbol),
                concat!("adrp {address}, :got:", $symbol),
                concat!("ldr {address}, [{address}, :got_lo12:", $symbol, "]"),
                // In programs that gold has linked, a missing symbol has the address where the image begins.
                ".weak __ehdr_start",
                ".hidden __ehdr_start",
                "adrp {start}, __ehdr_start",
                "add {start}, {start}, :lo12:__ehdr_start",
                "cmp {address}, {start}",
                "csel {address}, xzr, {address}, eq",
                address = out(reg) address,
                start = out(reg) _,
                options(nostack, readonly, pure),
            );
        }
        address
    }};
}

// LLVM knows these functions of libc, and would have them looked up at the program's start (`RtLibUseGOT` in core's
// bitcode): so they are called from here, through the procedure linkage table.
global_asm!(
    ".pushsection .text.__pcce_at_exit,\"ax\",@progbits",
    ".hidden __pcce_at_exit",
    ".globl __pcce_at_exit",
    ".type __pcce_at_exit,@function",
    ".p2align 2",
    "__pcce_at_exit: b __cxa_atexit",
    ".size __pcce_at_exit, . - __pcce_at_exit",
    ".popsection",
    ".pushsection .text.__pcce_flush,\"ax\",@progbits",
    ".hidden __pcce_flush",
    ".globl __pcce_flush",
    ".type __pcce_flush,@function",
    ".p2align 2",
    "__pcce_flush: b fflush",
    ".size __pcce_flush, . - __pcce_flush",
    ".popsection",
);

/// The calling thread's instance of a thread-local block with this symbol, by the psABI's initial-exec sequence. The
/// linker relaxes it where it can.
#[macro_export]
macro_rules! thread_local_block {
    ($symbol:literal) => {{
        let block;
        // SAFETY: reads the thread pointer and the block's offset from it. Neither changes while a function runs.
        unsafe {
            core::arch::asm!(
                "mrs {block}, tpidr_el0",
                concat!("adrp {offset}, :gottprel:", $symbol),
                concat!("ldr {offset}, [{offset}, :gottprel_lo12:", $symbol, "]"),
                "add {block}, {block}, {offset}",
                block = out(reg) block,
                offset = out(reg) _,
                options(pure, nostack, readonly, preserves_flags),
            );
        }
        block
    }};
}

/// The stack pointer.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// The thread pointer. glibc keeps the thread's descriptor just below it, at the upper end of the thread's stack.
#[inline(always)]
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the psABI's way to read the thread pointer.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, pure, preserves_flags)) };
    pointer
}

/// A system call. Returns what the kernel returns: a negative error number if it failed.
///
/// # Safety
/// As the system call.
#[inline(always)]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: by the contract; the kernel changes the result's register only.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack),
        );
    }
    result
}

/// Ends the process by a signal, with no symbol of libc.
#[cfg(feature = "freestanding")]
pub fn trap() -> ! {
    // SAFETY: an instruction that raises a signal.
    unsafe { asm!("udf #0", options(noreturn, nomem, nostack)) }
}
