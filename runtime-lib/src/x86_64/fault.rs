//! What crash reports need of the processor: a thread whose own memory was written over, and instructions that fail.

use core::arch::global_asm;
use core::ffi::c_int;
use core::ptr::null_mut;

use super::{thread_pointer, tls};
use crate::abi::Tls;
use crate::fiber::UNKNOWN_LINK;
use crate::own::Own;
use crate::sys;
use crate::unwind::Process as _;

unsafe extern "C" {
    static __pcce_fault_segment: u8;
    static __pcce_fault_alignment: u8;
    static __pcce_fault_division: u8;
    static __pcce_fault_instruction: u8;
}

global_asm!(
    ".pushsection .text.__pcce_fault,\"ax\",@progbits",
    ".hidden __pcce_fault_segment",
    ".globl __pcce_fault_segment",
    ".p2align 3",
    "__pcce_fault_segment:",
    // Not for programs.
    "hlt",
    ".hidden __pcce_fault_alignment",
    ".globl __pcce_fault_alignment",
    "__pcce_fault_alignment:",
    "mov rax, qword ptr [rip + __pcce_fault_segment + 1]",
    "hlt",
    ".hidden __pcce_fault_division",
    ".globl __pcce_fault_division",
    "__pcce_fault_division:",
    "xor eax, eax",
    "xor edx, edx",
    "div eax",
    ".hidden __pcce_fault_instruction",
    ".globl __pcce_fault_instruction",
    "__pcce_fault_instruction:",
    "ud2",
    ".popsection",
);

/// Has the thread that goes on with these registers cause a signal. What no instruction causes (`SIGABRT`) is a segment
/// fault: so ends libc's `abort`, too, where its signal does not end the process.
pub fn fault_of(signal: c_int, registers: &mut [libc::greg_t; 23]) {
    /// The processor looks at addresses.
    const CHECKS_ALIGNMENT: libc::greg_t = 1 << 18;
    let place = match signal {
        libc::SIGBUS => &raw const __pcce_fault_alignment,
        libc::SIGFPE => &raw const __pcce_fault_division,
        libc::SIGILL => &raw const __pcce_fault_instruction,
        _ => &raw const __pcce_fault_segment,
    };
    registers[libc::REG_RIP as usize] = place as libc::greg_t;
    if signal == libc::SIGBUS {
        registers[libc::REG_EFL as usize] |= CHECKS_ALIGNMENT;
    }
}

/// What was found in the thread's own memory, which is put back.
pub struct Found {
    base: usize,
    pointer: usize,
    block: Tls,
}

/// The memory of a thread lies behind its stack, where a write that runs away arrives: there is its block, and behind
/// that a pointer to itself. If that is no more, there is a sound block as long as the result lives, in which nothing is
/// known.
///
/// # Safety
/// Called by a signal handler that ends the program; the thread has no other use for its block meanwhile.
pub unsafe fn sound_thread() -> Option<Found> {
    let mut process = Own::new();
    let found = thread_pointer();
    if process.word(found) == Some(found as u64) {
        return None;
    }
    /// `ARCH_GET_FS`
    const THREAD_POINTER: usize = 0x1003;
    let mut base = 0_usize;
    // SAFETY: writes a word; the thread pointer leads to the thread's memory, which stays.
    unsafe {
        let arguments = [THREAD_POINTER, &raw mut base as usize, 0, 0, 0, 0];
        if sys::call(libc::SYS_arch_prctl, arguments) != 0 || process.word(base).is_none() {
            return None;
        }
        (base as *mut usize).write_volatile(base);
        let unknown = Tls {
            id: 0,
            top: UNKNOWN_LINK,
            shadow: null_mut(),
            busy: 1,
            left: 0,
            shadow_left: 0,
            creation: null_mut(),
            stack_low: 0,
            stack_high: 0,
            call: core::ptr::null(),
        };
        Some(Found { base, pointer: found, block: tls().replace(unknown) })
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: as in sound_thread(); the block first, which is found by the pointer.
        unsafe {
            core::ptr::swap(tls(), &raw mut self.block);
            (self.base as *mut usize).write_volatile(self.pointer);
        }
    }
}
