//! Data that must be right when the program's memory is not: pages that cannot be written to by mistake, and a copy of
//! the kernel's auxiliary vector. The vector itself lies above the stack, where a runaway write arrives first.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::machine::{LARGEST_PAGE, PAGE_SIZE};
use crate::sys;

/// A value in pages of its own, which can only be read once it is settled.
#[repr(C, align(4096))]
pub struct Settled<T>(UnsafeCell<T>);

// SAFETY: the callers of settle() say why nothing else uses the value.
unsafe impl<T: Sync> Sync for Settled<T> {}

impl<T> Settled<T> {
    /// A value that is not settled yet.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub fn get(&self) -> &T {
        // SAFETY: changed as the contract of settle() says.
        unsafe { &*self.0.get() }
    }

    /// Changes the value, and then protects it. If the kernel refuses that, the value stays unprotected.
    ///
    /// # Safety
    /// No reference to a changed part is used meanwhile, except to atomics.
    pub unsafe fn settle(&self, change: impl FnOnce(*mut T)) {
        self.protect(libc::PROT_READ | libc::PROT_WRITE);
        change(self.0.get());
        self.protect(libc::PROT_READ);
    }

    fn protect(&self, access: c_int) {
        // Other variables share larger pages.
        if !has_smallest_pages() {
            return;
        }
        let size = size_of::<Self>().next_multiple_of(PAGE_SIZE);
        // SAFETY: whole pages of this value only.
        unsafe {
            sys::call(libc::SYS_mprotect, [self.0.get() as usize, size, access as usize, 0, 0, 0]);
        }
    }
}

/// Returns whether the kernel's pages are as small as [`PAGE_SIZE`].
pub fn has_smallest_pages() -> bool {
    LARGEST_PAGE == PAGE_SIZE || looked_up(libc::AT_PAGESZ) == PAGE_SIZE
}

/// The key of the maximum size of a signal's frame (`AT_MINSIGSTKSZ`).
pub const SIGNAL_FRAME: libc::c_ulong = 51;
/// The entries of the auxiliary vector that are copied.
const KEYS: [libc::c_ulong; 5] =
    [libc::AT_ENTRY, libc::AT_PHDR, libc::AT_PHNUM, libc::AT_RANDOM, SIGNAL_FRAME];
static REMEMBERED: Settled<[AtomicUsize; KEYS.len()]> =
    Settled::new([const { AtomicUsize::new(0) }; KEYS.len()]);

/// An entry as libc has it, which reads the vector.
fn looked_up(key: libc::c_ulong) -> usize {
    // SAFETY: a plain lookup.
    unsafe { libc::getauxval(key) as usize }
}

/// From now on, [`auxiliary`] reads nothing that the program can overwrite.
pub fn remember_auxiliary() {
    // SAFETY: only atomics are in it.
    unsafe {
        REMEMBERED.settle(|values| {
            for (value, key) in (*values).iter().zip(KEYS) {
                value.store(looked_up(key), Ordering::Relaxed);
            }
        });
    }
}

/// An entry of the auxiliary vector, as the kernel gave it; 0 if there is none.
pub fn auxiliary(key: libc::c_ulong) -> usize {
    let remembered = KEYS.iter().position(|known| *known == key).map(|at| &REMEMBERED.get()[at]);
    match remembered.map_or(0, |value| value.load(Ordering::Relaxed)) {
        0 => looked_up(key),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_libc_has() {
        for key in KEYS {
            assert_eq!(auxiliary(key), looked_up(key));
        }
        remember_auxiliary();
        remember_auxiliary();
        for (key, value) in KEYS.into_iter().zip(REMEMBERED.get()) {
            assert_eq!((auxiliary(key), value.load(Ordering::Relaxed)), (looked_up(key), looked_up(key)));
        }
    }

    #[test]
    fn settled_values_are_pages_of_their_own() {
        static VALUE: Settled<[u8; 5000]> = Settled::new([1; 5000]);
        assert_eq!((VALUE.get().as_ptr() as usize % PAGE_SIZE, size_of_val(&VALUE)), (0, 2 * PAGE_SIZE));
        for value in [2, 3] {
            // SAFETY: only this test knows it.
            unsafe { VALUE.settle(|bytes| (*bytes)[4999] = value) };
            assert_eq!(VALUE.get()[4998..], [1, value]);
        }
    }
}
