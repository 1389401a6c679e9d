//! What is the processor's own: everything here and below is for x86-64, as is the walk over stacks in `pcce-abi`.

mod fault;
mod functions;
mod jump;

use core::arch::asm;

use crate::Registers;
use crate::abi::Tls;

pub use self::fault::{fault_of, go_back, sound_thread};
pub use self::jump::jump_target;

/// The runtime's version as the loader has bound its name: it is that of another runtime, where that comes first.
pub fn bound_version() -> *const u8 {
    let version;
    // SAFETY: reads the global offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + __pcce_abi_v8@GOTPCREL]", out(reg) version, options(nostack, readonly, pure));
    }
    version
}

/// Where the stack of the thread ends.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: reads the stack pointer.
    unsafe { asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// glibc keeps the thread's descriptor at the upper end of the thread's stack.
#[inline(always)]
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the psABI's way to read the thread pointer.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, pure)) };
    pointer
}

/// The registers of the function into which this is inlined, as far as its callers' are found from them.
#[inline(always)]
pub fn here() -> Registers {
    let mut registers = Registers::NONE;
    let (rip, rsp, rbp, rbx, r12, r13, r14, r15): (u64, u64, u64, u64, u64, u64, u64, u64);
    // SAFETY: reads registers only.
    unsafe {
        asm!(
            "lea {rip}, [rip]",
            "mov {rsp}, rsp",
            "mov {rbp}, rbp",
            "mov {rbx}, rbx",
            rip = out(reg) rip,
            rsp = out(reg) rsp,
            rbp = out(reg) rbp,
            rbx = out(reg) rbx,
            options(nomem, nostack, preserves_flags),
        );
        asm!(
            "mov {r12}, r12",
            "mov {r13}, r13",
            "mov {r14}, r14",
            "mov {r15}, r15",
            r12 = out(reg) r12,
            r13 = out(reg) r13,
            r14 = out(reg) r14,
            r15 = out(reg) r15,
            options(nomem, nostack, preserves_flags),
        );
    }
    // By their numbers in the unwind tables.
    let saved = [(16, rip), (7, rsp), (6, rbp), (3, rbx), (12, r12), (13, r13), (14, r14), (15, r15)];
    for (number, value) in saved {
        registers.set(number, value);
    }
    registers
}

/// The calling thread's block.
#[inline(always)]
pub fn tls() -> *mut Tls {
    let block: *mut Tls;
    // SAFETY: reads the thread pointer and the block's offset from it, as the psABI's
    // initial-exec sequence does; the linker relaxes it where it can. Neither changes while a function of the runtime
    // runs.
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
