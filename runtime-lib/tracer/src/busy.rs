//! Marks a stream that is being changed: handlers that interrupt find the position where it was before.

use core::sync::atomic::{Ordering, compiler_fence};

use crate::abi::trace::Block;
use crate::area::{self, Area, block};
use crate::forks;
use crate::stream::{here, lose};

/// The mark, as long as this lives.
pub struct Busy(*mut Area);

impl Busy {
    /// Sets the mark.
    ///
    /// # Safety
    /// The block is that of the thread, the area that of its stream.
    pub unsafe fn new(block: *const Block, area: *mut Area) -> Self {
        // SAFETY: by the contract.
        unsafe { (*area).stream.busy.store(here(block, area) + 1, Ordering::Release) };
        compiler_fence(Ordering::SeqCst);
        Self(area)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: by the contract of new().
        unsafe {
            (*self.0).stream.busy.store(0, Ordering::Release);
            if forks::is_orphan(&raw const (*self.0).stream) && area::of(block()) == self.0 {
                lose(block(), self.0);
            }
        }
    }
}
