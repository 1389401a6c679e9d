//! Who looks at tokens as they are taken: verify mode (`verify/captures.rs`), if the program has it.

use core::ffi::{CStr, c_char};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Where a token was taken.
#[derive(Clone, Copy)]
pub enum Taken {
    /// By instrumented code, at this site.
    Site(*const u8),
    /// At a point: where a signal has interrupted the thread, or, with the program counter 0, where code without the
    /// pass has asked.
    Point {
        /// The program counter there.
        pc: usize,
        /// The stack pointer there.
        sp: usize,
    },
}

/// Looks at a token, which may be cut. It is called in signal handlers, too.
pub type Watch = fn(Taken, &CStr);

/// The [`Watch`]; null where nobody looks.
pub static WATCH: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Shows the token in a buffer.
///
/// # Safety
/// If the size is not 0, there is a text that ends with a zero.
#[inline(always)]
pub(super) unsafe fn show(taken: Taken, buf: *const c_char, size: usize) {
    let watch = WATCH.load(Ordering::Relaxed);
    if !watch.is_null() && size > 0 {
        // SAFETY: whoever has stored it has stored one; by the contract.
        unsafe { transmute::<*mut (), Watch>(watch)(taken, CStr::from_ptr(buf)) };
    }
}
