//! For crash reports: the sound block of a thread whose own memory was overwritten, and instructions that fail.

use core::arch::{asm, global_asm};
use core::ffi::c_int;

use pcce_system::machine::thread_pointer;

use crate::abi::Tls;
use crate::abi::machine::aarch64::SIGNAL_CONTEXT;
use crate::fault::{refused, unknown_block};
use crate::own::Own;
use crate::state::tls;
use crate::unwind::Process as _;

unsafe extern "C" {
    static __pcce_fault_segment: u8;
    static __pcce_fault_instruction: u8;
}

global_asm!(
    ".pushsection .text.__pcce_fault,\"ax\",@progbits",
    ".hidden __pcce_fault_segment",
    ".globl __pcce_fault_segment",
    ".p2align 3",
    "__pcce_fault_segment:",
    "mov x0, xzr",
    "ldr x0, [x0]",
    ".hidden __pcce_fault_instruction",
    ".globl __pcce_fault_instruction",
    "__pcce_fault_instruction:",
    "udf #0",
    ".popsection",
);

/// Has the code that a signal interrupted cause the signal again when it goes on. A signal that no instruction causes
/// (`SIGABRT`, and here `SIGFPE`, too) becomes a segment fault, as in libc's `abort` where its signal does not end the
/// process.
///
/// # Safety
/// The kernel's context.
pub unsafe fn fault_of(signal: c_int, context: *mut libc::ucontext_t) {
    let place = match signal {
        // An instruction is at an address that no instruction can have.
        libc::SIGBUS => (&raw const __pcce_fault_segment).wrapping_add(1),
        libc::SIGILL => &raw const __pcce_fault_instruction,
        _ => &raw const __pcce_fault_segment,
    };
    // SAFETY: by the contract.
    unsafe { (*context).uc_mcontext.pc = place as u64 };
}

/// Ends a signal handler, as its return does. Calls [`refused`] if the kernel refuses that.
///
/// # Safety
/// Called by a signal handler with what the kernel gave. The context is on the stack, where the kernel expects it.
pub unsafe fn return_from_signal(context: *const libc::ucontext_t, signal: c_int) -> ! {
    // SAFETY: by the contract. The frame is where the kernel expects it; nothing below it is used any more.
    unsafe {
        asm!(
            "mov sp, {frame}",
            "mov x8, {number}",
            "svc #0",
            "mov w0, w20",
            "bl {refused}",
            "udf #0",
            frame = in(reg) context.byte_sub(SIGNAL_CONTEXT),
            number = const libc::SYS_rt_sigreturn,
            refused = sym refused,
            // The system call preserves it.
            in("x20") signal,
            options(noreturn),
        );
    }
}

/// The damaged contents of the thread's own memory, which are put back.
pub struct Found(Tls);

/// Gives a thread whose memory is damaged a sound block, which knows nothing, as long as the result lives. The memory
/// of a thread lies above its stack, where a runaway write arrives: first comes the pointer to the loader's table of
/// the thread's variables, which is checked, and then the block.
///
/// # Safety
/// Called by a signal handler that ends the program; the thread has no other use for its block meanwhile.
pub unsafe fn sound_thread() -> Option<Found> {
    let mut process = Own::new();
    let table = process.word(thread_pointer()).unwrap_or(0) as usize;
    if table != 0 && process.word(table).is_some() {
        return None;
    }
    // SAFETY: by the contract: this thread's block.
    unsafe { Some(Found(tls().replace(unknown_block()))) }
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: as in sound_thread().
        unsafe { core::ptr::swap(tls(), &raw mut self.0) };
    }
}
