//! For crash reports: the sound block of a thread whose own memory was overwritten, and instructions that fail.

use core::arch::{asm, global_asm};
use core::ffi::c_int;

use pcce_system::machine::thread_pointer;

use crate::abi::Tls;
use crate::fault::{refused, unknown_block};
use crate::own::Own;
use crate::state::tls;
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
    // A privileged instruction.
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

/// Has the code that a signal interrupted cause the signal again when it goes on. A signal that no instruction causes
/// (`SIGABRT`) becomes a segment fault, as in libc's `abort` where its signal does not end the process.
///
/// # Safety
/// The kernel's context.
pub unsafe fn fault_of(signal: c_int, context: *mut libc::ucontext_t) {
    /// The processor's flag for alignment checks.
    const CHECKS_ALIGNMENT: libc::greg_t = 1 << 18;
    let place = match signal {
        libc::SIGBUS => &raw const __pcce_fault_alignment,
        libc::SIGFPE => &raw const __pcce_fault_division,
        libc::SIGILL => &raw const __pcce_fault_instruction,
        _ => &raw const __pcce_fault_segment,
    };
    // SAFETY: by the contract.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    registers[libc::REG_RIP as usize] = place as libc::greg_t;
    if signal == libc::SIGBUS {
        registers[libc::REG_EFL as usize] |= CHECKS_ALIGNMENT;
    }
}

/// Ends a signal handler, as its return does. Calls [`refused`] if the kernel refuses that.
///
/// # Safety
/// Called by a signal handler with what the kernel gave. The context is on the stack, where the kernel expects it.
pub unsafe fn return_from_signal(context: *const libc::ucontext_t, signal: c_int) -> ! {
    // SAFETY: by the contract. The context is where the kernel expects it; nothing below it is used any more.
    unsafe {
        asm!(
            "mov rsp, {context}",
            "mov eax, {number}",
            "syscall",
            "and rsp, -16",
            "call {refused}",
            "ud2",
            context = in(reg) context,
            number = const libc::SYS_rt_sigreturn,
            refused = sym refused,
            // The system call preserves it.
            in("edi") signal,
            options(noreturn),
        );
    }
}

/// The damaged contents of the thread's own memory, which are put back.
pub struct Found {
    base: usize,
    pointer: usize,
    block: Tls,
}

/// Gives a thread whose memory is damaged a sound block, which knows nothing, as long as the result lives. The memory
/// of a thread lies above its stack, where a runaway write arrives: the block comes first, and then a pointer to
/// itself, which is checked.
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
        Some(Found { base, pointer: found, block: tls().replace(unknown_block()) })
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
