//! `setjmp`, and `longjmp` back to where it was called.
//!
//! Instrumented code to which control comes back stores the state that it found at its entry. Other code does not know
//! that there is a state: what it calls next would begin with that of the functions that were left. So the program's
//! `setjmp` and `longjmp` lead here first (`libpcce_libc.a`). The one keeps the state in the buffer, in words of the
//! set of signals that the kernel does not have, and the other one puts it back.

use core::ptr::null;

use crate::abi::{Link, Shadow};
use crate::fiber::{UNKNOWN_LINK, followed_from, is_unknown};
use crate::signal::{self, SignalFrame};
use crate::state::{current, tls};
use crate::x86_64::{jump_target, stack_pointer};

/// What `setjmp` keeps, at [`OFFSET`](Self::OFFSET) of the buffer.
#[repr(C)]
pub struct Saved {
    pub id: u64,
    pub top: Link,
    /// The two, and [`SEAL`](Self::SEAL): nobody else has written here.
    pub sealed: u64,
}

impl Saved {
    /// Offset in a buffer: behind the registers, a word for whether signals are kept, and the 64 signals that there
    /// are. `pthread_cleanup_push` has buffers that end with these words, and uses them behind `setjmp`. With shadow
    /// stacks libc would use one of them; no image with the runtime has these.
    pub const OFFSET: usize = 80;
    /// Anything that is not likely.
    pub const SEAL: u32 = 0x5d1b_7c3a;

    /// The state in a buffer. None if whoever wrote it was not the program's `setjmp`.
    ///
    /// # Safety
    /// A buffer of `setjmp`.
    unsafe fn read(buffer: *const u64) -> Option<(u64, Link)> {
        // SAFETY: by the contract.
        unsafe {
            let words = buffer.byte_add(Self::OFFSET);
            let written = words.read() ^ words.add(1).read() ^ u64::from(Self::SEAL) == words.add(2).read();
            let saved = words.cast::<Self>();
            written.then(|| ((*saved).id, (*saved).top))
        }
    }
}

/// The state where control goes.
#[repr(C)]
pub struct Landing {
    pub sp: usize,
    pub pc: usize,
    pub rbp: u64,
    pub id: u64,
    pub top: Link,
    pub shadow: *mut Shadow,
}

/// Before `longjmp` with this buffer. Whether the caller's activation is to be left for that of the caller of `setjmp`,
/// and the state put back then.
///
/// # Safety
/// A buffer of `setjmp`; `landing` can be written.
pub unsafe extern "C" fn prepare(buffer: *const u64, landing: *mut Landing) -> bool {
    // SAFETY: by the contract: a buffer is larger than what is read of it. This thread's block.
    unsafe {
        let Some((id, top)) = Saved::read(buffer) else { return false };
        let (sp, pc, rbp) = jump_target(buffer);
        let shadow = shadow_at(sp, top);
        if stack_pointer() < sp {
            landing.write(Landing { sp, pc, rbp, id, top, shadow });
            return true;
        }
        // Further down there is another stack: who interrupts finds a chain that is not on this one.
        let block = tls();
        (&raw mut (*block).top).write_volatile(UNKNOWN_LINK);
        (&raw mut (*block).id).write_volatile(id);
        (&raw mut (*block).shadow).write_volatile(shadow);
        (&raw mut (*block).call).write_volatile(null());
        (&raw mut (*block).top).write_volatile(top);
    }
    false
}

/// Verify mode: the innermost record of an activation that goes on with the stack pointer `sp`, and the chain `top`.
unsafe fn shadow_at(sp: usize, top: Link) -> *mut Shadow {
    // SAFETY: this thread's block, records and frames. Nothing has been overwritten yet.
    unsafe {
        let mut shadow = (*tls()).shadow;
        if shadow.is_null() {
            return shadow;
        }
        // A handler's records are not on the list of what it has interrupted.
        let mut at = current().1;
        while !at.is_null() && at != top && !is_unknown(at) {
            if signal::is_site((*at.frame()).site()) {
                shadow = (*at.frame().cast::<SignalFrame>()).shadow;
            }
            at = (*at.frame()).prev;
        }
        let is_outwards = |at: usize| !is_unknown(followed_from(at, Link::new(sp as *mut _)));
        while !shadow.is_null() && shadow.addr() < sp && is_outwards(shadow.addr()) {
            shadow = (*shadow).prev;
        }
        shadow
    }
}
