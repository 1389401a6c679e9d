//! x86-64.

mod fault;
mod functions;
mod jump;

use core::arch::asm;

use crate::Registers;

pub use self::fault::{fault_of, return_from_signal, sound_thread};
pub use self::jump::{SAVED_AT, jump_target};

/// The address of the runtime's version, as the loader has bound its name: in another runtime, if that comes first.
pub fn bound_version() -> *const u8 {
    let version;
    // SAFETY: reads the global offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + __pcce_abi_v9@GOTPCREL]", out(reg) version, options(nostack, readonly, pure));
    }
    version
}

/// The function that is installed so that the kernel calls the trampoline of signals: the trampoline itself. The kernel
/// gives it a context even if it is installed as one that takes none.
pub fn called_by_kernel(trampoline: usize) -> usize {
    trampoline
}

/// The program counter of the code that a signal interrupted.
///
/// # Safety
/// The kernel's context, or a copy.
pub unsafe fn interrupted_pc(context: *const libc::ucontext_t) -> usize {
    // SAFETY: by the contract.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] as usize }
}

/// The stack pointer of the code that a signal interrupted.
///
/// # Safety
/// The kernel's context, or a copy.
pub unsafe fn interrupted_sp(context: *const libc::ucontext_t) -> usize {
    // SAFETY: by the contract.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_RSP as usize] as usize }
}

/// Has the code that a signal interrupted go on with the registers of another context.
///
/// # Safety
/// The kernel's contexts.
pub unsafe fn set_interrupted(context: *mut libc::ucontext_t, from: *const libc::ucontext_t) {
    // SAFETY: by the contract.
    unsafe { (*context).uc_mcontext.gregs = (*from).uc_mcontext.gregs };
}

/// The registers of the function into which this is inlined, as far as the walk to its callers needs them.
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
