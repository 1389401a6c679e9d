//! x86-64.

mod jumps;
mod stubs;
mod vectors;

use core::arch::global_asm;

use pcce_system::machine::thread_pointer;

pub use pcce_abi::machine::x86_64::ENTRY_LEN;

pub use self::jumps::{JUMPS_LEN, lead, leads_away};
pub use super::places::flushes_or_enters as within;
use crate::area::block;
use crate::last::__pcce_trace_last;
use crate::sys;

/// The flag of an action that says where handlers return to, which the kernel requires (`SA_RESTORER`).
pub const RESTORER_FLAG: u64 = 0x0400_0000;

unsafe extern "C" {
    fn __pcce_trace_restorer();
}

// Debuggers recognise the frame of a signal by these instructions.
global_asm!(
    ".pushsection .text.__pcce_trace_restorer,\"ax\",@progbits",
    ".hidden __pcce_trace_restorer",
    ".globl __pcce_trace_restorer",
    ".type __pcce_trace_restorer,@function",
    "nop",
    "__pcce_trace_restorer:",
    "mov rax, {}",
    "syscall",
    ".size __pcce_trace_restorer, . - __pcce_trace_restorer",
    ".popsection",
    const libc::SYS_rt_sigreturn,
);

/// The address to which a handler returns that was installed without libc.
pub fn restorer() -> usize {
    __pcce_trace_restorer as *const () as usize
}

/// The number of bits by which the pending bits were shifted for the bits that the instruction at `at` is about to add:
/// emitted code appends by two instructions, one after the other. None if that is not known.
pub fn appended(at: usize) -> Option<u32> {
    let block = block().addr();
    let thread = thread_pointer();
    // The last byte of the instruction before, and this one.
    let mut code = [0_u8; 10];
    if !sys::copy_from(at.wrapping_sub(1), &mut code) {
        // After a jump to an unmapped address no code was executed.
        let mut reads = |from: usize| sys::copy_from(from, &mut code[..1]);
        return (!reads(at) && reads(__pcce_trace_last as *const () as usize)).then_some(0);
    }
    let [moved, 0x64, rex, opcode, operand, index, offset @ ..] = code else { return Some(0) };
    // `inc`, or `add` of a number, to a word of the thread.
    let changes = matches!(opcode, 0xff | 0x83 | 0x81) && operand & 0x38 == 0;
    if rex & 0xf8 != 0x48 || !changes || operand >> 6 == 3 {
        return Some(0);
    }
    if (operand, index) != (0x04, 0x25) {
        return None;
    }
    let to = thread.wrapping_add_signed(i32::from_le_bytes(offset) as isize);
    match opcode {
        _ if to != block => Some(0),
        0xff => Some(1),
        _ => Some(moved.into()).filter(|bits| (2..=7).contains(bits)),
    }
}
