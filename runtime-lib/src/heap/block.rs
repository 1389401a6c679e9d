//! Blocks, and the headers in front of them.
use core::ffi::c_int;

use super::records::{Record, change_live, record};

/// What stands in front of a block.
#[repr(C)]
pub(super) struct Header {
    /// The record, and in the upper bits how far the block is from what glibc gave, as a power of two.
    record: u64,
    /// The size that was asked for, and in the upper bits [`Header::check`].
    size: u64,
}

pub(super) const HEADER: usize = size_of::<Header>();
const LOW: u64 = (1 << 48) - 1;
/// Larger blocks than glibc gives.
pub(super) const TOO_LARGE: usize = usize::MAX / 2;

/// A block of ours.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) record: &'static Record,
    pub(super) size: usize,
    /// Its distance from what glibc gave.
    pub(super) offset: usize,
}

impl Header {
    /// Depends on the address, so that what is copied is no header. Never 0, which is what glibc has there.
    fn check(at: usize, record: u64, size: u64) -> u64 {
        let mixed = (at as u64 ^ record.rotate_left(17) ^ size).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed >> 48 | 1
    }

    /// Writes the header of a block that is `offset` bytes behind `base`, and returns the block.
    #[inline(always)]
    pub(super) unsafe fn write(base: *mut u8, block: Block) -> *mut u8 {
        // SAFETY: by the caller, there is room for it in front of the block.
        unsafe {
            let at = base.add(block.offset);
            let record =
                block.record as *const Record as u64 | u64::from(block.offset.trailing_zeros()) << 48;
            let size = block.size as u64;
            let check = Self::check(at as usize, record, size);
            at.cast::<Header>().sub(1).write(Header { record, size: size | check << 48 });
            at
        }
    }

    /// The block at `at`, if it is ours.
    #[inline(always)]
    pub(super) unsafe fn read(at: *mut u8) -> Option<Block> {
        // SAFETY: what glibc gave has its own header there.
        let header = unsafe { at.cast::<Header>().sub(1).read() };
        let size = header.size & LOW;
        if header.size >> 48 != Self::check(at as usize, header.record, size) {
            return None;
        }
        // SAFETY: written by write().
        let record = unsafe { &*((header.record & LOW) as *const Record) };
        Some(Block { record, size: size as usize, offset: 1 << (header.record >> 48) })
    }

    /// The block is freed: it is ours no more.
    #[inline(always)]
    pub(super) unsafe fn clear(at: *mut u8) {
        // SAFETY: a block of ours.
        unsafe { (&raw mut (*at.cast::<Header>().sub(1)).size).write_volatile(0) };
    }
}

pub(super) fn fail(error: c_int) {
    // SAFETY: this thread's.
    unsafe { *libc::__errno_location() = error };
}

/// A new block of `size` bytes at `offset` in what glibc gave.
#[inline(always)]
pub(super) unsafe fn allocated(base: *mut u8, size: usize, offset: usize) -> *mut u8 {
    if base.is_null() {
        return base;
    }
    let record = record();
    record.add_block(size);
    change_live(size as u64, 0);
    // SAFETY: by the caller.
    unsafe { Header::write(base, Block { record, size, offset }) }
}
