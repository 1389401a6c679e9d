//! AArch64.

mod fault;
mod functions;
mod jump;

use core::arch::asm;

use crate::Registers;
use crate::abi::machine::aarch64::{PC, SP};

pub use self::fault::{fault_of, go_back, sound_thread};
pub use self::jump::{SAVED_AT, jump_target};

/// The address of the runtime's version, as the loader has bound its name: in another runtime, if that comes first.
pub fn bound_version() -> *const u8 {
    let version;
    // SAFETY: reads the global offset table.
    unsafe {
        asm!("adrp {version}, :got:__pcce_abi_v9", "ldr {version}, [{version}, :got_lo12:__pcce_abi_v9]",
            version = out(reg) version, options(nostack, readonly, pure, preserves_flags));
    }
    version
}

/// The program counter of the code that a signal interrupted.
///
/// # Safety
/// The kernel's context, or a copy.
pub unsafe fn interrupted_pc(context: *const libc::ucontext_t) -> usize {
    // SAFETY: by the contract.
    unsafe { (*context).uc_mcontext.pc as usize }
}

/// The stack pointer of the code that a signal interrupted.
///
/// # Safety
/// The kernel's context, or a copy.
pub unsafe fn interrupted_sp(context: *const libc::ucontext_t) -> usize {
    // SAFETY: by the contract.
    unsafe { (*context).uc_mcontext.sp as usize }
}

/// Has the code that a signal interrupted go on with the registers of another context.
///
/// # Safety
/// The kernel's contexts.
pub unsafe fn set_interrupted(context: *mut libc::ucontext_t, from: *const libc::ucontext_t) {
    // SAFETY: by the contract.
    unsafe {
        let (to, from) = (&raw mut (*context).uc_mcontext, &raw const (*from).uc_mcontext);
        (*to).regs = (*from).regs;
        (*to).sp = (*from).sp;
        (*to).pc = (*from).pc;
        (*to).pstate = (*from).pstate;
    }
}

/// The registers of the function into which this is inlined, as far as the walk to its callers needs them.
#[inline(always)]
pub fn here() -> Registers {
    let mut registers = Registers::NONE;
    let (pc, sp): (u64, u64);
    // x19 to x30.
    let mut saved = [0_u64; 12];
    // SAFETY: reads registers, and writes twelve words.
    unsafe {
        asm!(
            "adr {pc}, .",
            "mov {sp}, sp",
            "stp x19, x20, [{saved}]",
            "stp x21, x22, [{saved}, #16]",
            "stp x23, x24, [{saved}, #32]",
            "stp x25, x26, [{saved}, #48]",
            "stp x27, x28, [{saved}, #64]",
            "stp x29, x30, [{saved}, #80]",
            pc = out(reg) pc,
            sp = out(reg) sp,
            saved = in(reg) &raw mut saved,
            options(nostack, preserves_flags),
        );
    }
    registers.set(PC, pc);
    registers.set(SP, sp);
    for (number, value) in (19..).zip(saved) {
        registers.set(number, value);
    }
    registers
}
