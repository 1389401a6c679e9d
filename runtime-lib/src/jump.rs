//! `setjmp`, and `longjmp` back to its call.
//!
//! Instrumented code to which control comes back stores the state that it found at its entry. Other code does not:
//! functions that it calls next would begin with the state of the functions that were left. So the program's `setjmp`
//! and `longjmp` lead here first (`libpcce_libc.a`). `setjmp` keeps the state in the buffer, in words of the signal set
//! that the kernel does not have, and `longjmp` puts it back.

use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::abi::{Link, Shadow};
use crate::fiber::GONE_LINK;
use crate::image::Image;
use crate::machine::{SAVED_AT, jump_target};
use crate::state::tls;
use crate::tracer;

/// The state that `setjmp` keeps, at [`SAVED_AT`] in the buffer.
#[repr(C)]
pub struct Saved {
    pub id: u64,
    pub top: Link,
    /// The exclusive or of both and [`SEAL`](Self::SEAL): it shows that the words are the runtime's.
    pub sealed: u64,
}

impl Saved {
    /// An unlikely value.
    pub const SEAL: u32 = 0x5d1b_7c3a;

    /// The state in a buffer. None if the buffer was not written by the program's `setjmp`.
    ///
    /// # Safety
    /// A buffer of `setjmp`.
    unsafe fn read(buffer: *const u64) -> Option<(u64, Link)> {
        // SAFETY: by the contract.
        unsafe {
            let words = buffer.byte_add(SAVED_AT);
            let written = words.read() ^ words.add(1).read() ^ u64::from(Self::SEAL) == words.add(2).read();
            let saved = words.cast::<Self>();
            written.then(|| ((*saved).id, (*saved).top))
        }
    }
}

/// A function of libc that the executable replaces by one of the runtime's, under the same name.
#[repr(C)]
pub struct Libcs {
    function: AtomicPtr<c_void>,
    /// Not 0 if the function is not libc's: a library has its own functions of these names, with buffers of its own,
    /// which are left alone.
    is_foreign: AtomicUsize,
}

type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Finds the function that the program would call by this name. `lookup`: `dlsym`, which static programs do not have.
///
/// # Safety
/// `name` ends with a zero, and the place can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_find(
    lookup: Lookup,
    name: *const c_char,
    found: *mut Libcs,
    uses_buffers: bool,
) {
    let next = |name: *const c_char| {
        // SAFETY: by the contract.
        unsafe { lookup(libc::RTLD_NEXT, name) }.cast_const()
    };
    let function = next(name);
    let start = |function: *const c_void| Image::start_of(function.cast());
    // The runtime's own shared library leads on to libc.
    let has = |name: &CStr| start(function) == start(next(name.as_ptr()));
    let is_foreign = uses_buffers && !has(c"gnu_get_libc_version") && !has(c"__pcce_setjmp");
    // SAFETY: by the contract. In this order: readers acquire the function first.
    unsafe {
        (*found).is_foreign.store(is_foreign.into(), Ordering::Relaxed);
        (*found).function.store(function.cast_mut(), Ordering::Release);
    }
}

/// Returns the innermost record of the shadow stack at the target of a jump, by the stack pointer and the chain there.
pub type ShadowAt = fn(usize, Link) -> *mut Shadow;

/// A [`ShadowAt`], where verify mode has records; else null.
pub static SHADOW_AT: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Before `longjmp` with this buffer: puts the state back.
///
/// # Safety
/// A buffer of `setjmp`.
pub unsafe extern "C" fn prepare(buffer: *const u64) {
    // SAFETY: by the contract: a buffer is larger than what is read of it. This thread's block.
    unsafe {
        let sp = jump_target(buffer);
        tracer::jump(sp);
        let Some((id, top)) = Saved::read(buffer) else { return };
        let block = tls();
        let shadow_at = SHADOW_AT.load(Ordering::Relaxed);
        let shadow = match shadow_at.is_null() {
            true => null_mut(),
            false => transmute::<*mut (), ShadowAt>(shadow_at)(sp, top),
        };
        // A handler that interrupts in between finds a chain that is known to say nothing.
        (&raw mut (*block).top).write_volatile(GONE_LINK);
        (&raw mut (*block).id).write_volatile(id);
        (&raw mut (*block).shadow).write_volatile(shadow);
        (&raw mut (*block).call).write_volatile(null());
        (&raw mut (*block).top).write_volatile(top);
    }
}
