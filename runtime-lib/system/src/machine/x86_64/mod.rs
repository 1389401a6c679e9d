//! x86-64.

#[cfg(any(test, feature = "freestanding"))]
mod memory;

use core::arch::{asm, global_asm};

#[cfg(test)]
pub(super) use self::memory::{memcpy, memmove, memset, strlen};

/// The size in bytes of the smallest pages that a kernel may have.
pub const PAGE_SIZE: usize = 4096;

/// The size in bytes of the largest pages that a kernel may have.
pub const LARGEST_PAGE: usize = PAGE_SIZE;

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
                concat!("mov {address}, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
                // In programs that gold has linked, a missing symbol has the address where the image begins.
                ".weak __ehdr_start",
                ".hidden __ehdr_start",
                "lea {start}, [rip + __ehdr_start]",
                "cmp {address}, {start}",
                "cmove {address}, {zero}",
                address = out(reg) address,
                start = out(reg) _,
                zero = in(reg) 0_usize,
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
    "__pcce_at_exit: jmp __cxa_atexit@PLT",
    ".size __pcce_at_exit, . - __pcce_at_exit",
    ".popsection",
    ".pushsection .text.__pcce_flush,\"ax\",@progbits",
    ".hidden __pcce_flush",
    ".globl __pcce_flush",
    ".type __pcce_flush,@function",
    "__pcce_flush: jmp fflush@PLT",
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
                "mov {block}, qword ptr fs:[0]",
                concat!("add {block}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                block = out(reg) block,
                options(pure, nostack, readonly),
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
    unsafe { asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// The thread pointer. glibc keeps the thread's descriptor there, at the upper end of the thread's stack.
#[inline(always)]
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the psABI's way to read the thread pointer.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, pure)) };
    pointer
}

/// A system call. Returns what the kernel returns: a negative error number if it failed.
///
/// # Safety
/// As the system call.
#[inline(always)]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: by the contract; the kernel changes these registers only.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Ends the process by a signal, with no symbol of libc.
#[cfg(feature = "freestanding")]
pub fn trap() -> ! {
    // SAFETY: an instruction that raises a signal.
    unsafe { asm!("ud2", options(noreturn, nomem, nostack)) }
}
