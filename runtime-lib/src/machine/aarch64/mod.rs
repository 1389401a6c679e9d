//! AArch64.

mod fault;
mod functions;
mod jump;

use core::arch::{asm, global_asm};

use crate::Registers;
use crate::abi::machine::aarch64::{PC, SIGNAL_CONTEXT, SIGNAL_RETURN, SP};

pub use self::fault::{fault_of, return_from_signal, sound_thread};
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

unsafe extern "C" {
    fn __pcce_signal_entry();
}

// The kernel gives a context only to handlers that are installed as ones that take it (`SA_SIGINFO`), but its frame on
// the stack always holds one. A handler that returns to the instructions of SIGNAL_RETURN was called by the kernel, and
// not by a sanitizer.
global_asm!(
    ".pushsection .text.__pcce_signal_entry,\"ax\",@progbits",
    ".hidden __pcce_signal_entry",
    ".globl __pcce_signal_entry",
    ".type __pcce_signal_entry,@function",
    ".p2align 2",
    "__pcce_signal_entry:",
    ".cfi_startproc",
    "ldr x9, [x30]",
    "mov x10, {return_0}",
    "movk x10, {return_1}, lsl #16",
    "movk x10, {return_2}, lsl #32",
    "movk x10, {return_3}, lsl #48",
    "cmp x9, x10",
    "b.ne 2f",
    "mov x1, sp",
    "add x2, sp, {context}",
    "2: b __pcce_signal_trampoline",
    ".cfi_endproc",
    ".size __pcce_signal_entry, . - __pcce_signal_entry",
    ".popsection",
    return_0 = const SIGNAL_RETURN & 0xffff,
    return_1 = const SIGNAL_RETURN >> 16 & 0xffff,
    return_2 = const SIGNAL_RETURN >> 32 & 0xffff,
    return_3 = const SIGNAL_RETURN >> 48,
    context = const SIGNAL_CONTEXT,
);

/// The function that is installed so that the kernel calls the trampoline of signals, with a context always.
pub fn called_by_kernel(_: usize) -> usize {
    __pcce_signal_entry as *const () as usize
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
