//! What is the same on all machines at the end of a signal handler, and for a thread whose memory is damaged.

use core::ffi::c_int;
use core::ptr::{null, null_mut};

use pcce_system::machine::stack_pointer;

use crate::abi::Tls;
use crate::fiber::UNKNOWN_LINK;
use crate::machine::return_from_signal;
use crate::sys;

/// Ends a signal handler by a system call, as its return would. If a sandbox refused that call after a plain return,
/// unknown instructions would follow; here, the signal that was sent again is delivered. Returns if the kernel's
/// context is not within `near` bytes: sanitizers call handlers with copies.
///
/// # Safety
/// Called by a signal handler with what the kernel gave.
pub unsafe fn go_back(context: *const libc::ucontext_t, signal: c_int, near: usize) {
    let own = stack_pointer();
    if (own..own.saturating_add(near)).contains(&context.addr()) {
        // SAFETY: by the contract: the context is where the kernel expects it.
        unsafe { return_from_signal(context, signal) };
    }
}

/// The kernel refuses to end the handler: has the signal delivered.
pub unsafe extern "C" fn refused(signal: c_int) {
    let set = 1_u64 << (signal - 1);
    let arguments = [libc::SIG_UNBLOCK as usize, &raw const set as usize, 0, 8, 0, 0];
    // SAFETY: the signal's action is not the handler any more; else the process ends here.
    unsafe {
        sys::call(libc::SYS_rt_sigprocmask, arguments);
        sys::call(libc::SYS_exit_group, [128 + signal as usize, 0, 0, 0, 0, 0]);
    }
}

/// A thread's block that knows nothing.
pub fn unknown_block() -> Tls {
    Tls {
        id: 0,
        top: UNKNOWN_LINK,
        shadow: null_mut(),
        busy: 1,
        shadow_left: 0,
        creation: null_mut(),
        stack_low: 0,
        stack_high: 0,
        call: null(),
    }
}
