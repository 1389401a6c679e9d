//! The heap profile: every allocation, by its context, with no sampling.
//!
//! The build script makes of the functions here the allocation functions of programs that are linked with
//! `--pcce-heap`: `__pcce_malloc` becomes `malloc`, and so on. The program's definitions serve the whole process, libc
//! included, and they call glibc's own by the names that it has for such programs (`__libc_malloc`).
//!
//! Each block has a [`Header`] in front of it that names the record of its context, so a block is freed without any
//! table: that costs 16 bytes a block, in a cache line that the allocator touches anyway. Blocks without a header that
//! fits their address are not ours, and left to glibc.
//!
//! The context is that of the innermost activation of instrumented code, which is known exactly: its call either
//! pushed, and the frame names the site, or the pass published the site ([`Tls::call`](crate::abi::Tls::call)). Where
//! neither is so, though the id says that there is such an activation, nothing is said.

mod block;
mod file;
mod records;
use core::ffi::{c_char, c_int};
use core::ptr::null_mut;

use self::block::{Block, HEADER, Header, TOO_LARGE, allocated, fail};
use self::records::{change_live, record};
use crate::machine::PAGE_SIZE;

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut u8;
    fn __libc_calloc(count: usize, size: usize) -> *mut u8;
    fn __libc_realloc(block: *mut u8, size: usize) -> *mut u8;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut u8;
    fn __libc_free(block: *mut u8);
    /// Not 0 while the process has one thread. May become 0 in front of the creation of a thread only.
    static __libc_single_threaded: c_char;
}

/// # Safety
/// As `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_malloc(size: usize) -> *mut u8 {
    // SAFETY: a plain call, with room for the header.
    unsafe { allocated(__libc_malloc(size.saturating_add(HEADER)), size, HEADER) }
}

/// # Safety
/// As `calloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_calloc(count: usize, size: usize) -> *mut u8 {
    let size = count.saturating_mul(size);
    // SAFETY: as in malloc().
    unsafe { allocated(__libc_calloc(1, size.saturating_add(HEADER)), size, HEADER) }
}

/// # Safety
/// As `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_free(at: *mut u8) {
    if at.is_null() {
        return;
    }
    // SAFETY: by the caller, a block.
    unsafe {
        let Some(block) = Header::read(at) else { return __libc_free(at) };
        Header::clear(at);
        block.record.remove_block(block.size);
        change_live(0, block.size as u64);
        __libc_free(at.sub(block.offset));
    }
}

/// # Safety
/// As `realloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_realloc(at: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: by the caller, null or a block.
    unsafe {
        if at.is_null() {
            return __pcce_malloc(size);
        }
        let Some(old) = Header::read(at) else { return __libc_realloc(at, size) };
        if size == 0 {
            __pcce_free(at);
            return null_mut();
        }
        let base = if old.offset == HEADER {
            // From here on the old block may be another thread's.
            Header::clear(at);
            __libc_realloc(at.sub(HEADER), size.saturating_add(HEADER))
        } else {
            let base = __libc_malloc(size.saturating_add(HEADER));
            if !base.is_null() {
                base.add(HEADER).copy_from_nonoverlapping(at, old.size.min(size));
                Header::clear(at);
                __libc_free(at.sub(old.offset));
            }
            base
        };
        if base.is_null() {
            Header::write(at.sub(old.offset), old);
            return base;
        }
        let record = record();
        old.record.remove_block(old.size);
        record.add_block(size);
        change_live(size as u64, old.size as u64);
        Header::write(base, Block { record, size, offset: HEADER })
    }
}

/// # Safety
/// As `reallocarray`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_reallocarray(at: *mut u8, count: usize, size: usize) -> *mut u8 {
    let Some(size) = count.checked_mul(size) else {
        fail(libc::ENOMEM);
        return null_mut();
    };
    // SAFETY: passed on.
    unsafe { __pcce_realloc(at, size) }
}

/// # Safety
/// As `memalign`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_memalign(alignment: usize, size: usize) -> *mut u8 {
    // As glibc does with one that is no power of two.
    if alignment > TOO_LARGE / 2 {
        fail(libc::EINVAL);
        return null_mut();
    }
    let offset = alignment.max(HEADER).next_power_of_two();
    // SAFETY: as in malloc(); the block is at a multiple of the offset, with room in front.
    unsafe { allocated(__libc_memalign(offset, size.saturating_add(offset)), size, offset) }
}

/// # Safety
/// As `aligned_alloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_aligned_alloc(alignment: usize, size: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe { __pcce_memalign(alignment, size) }
}

/// # Safety
/// As `posix_memalign`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_posix_memalign(to: *mut *mut u8, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return libc::EINVAL;
    }
    // SAFETY: by the caller.
    unsafe {
        let errno = *libc::__errno_location();
        let at = __pcce_memalign(alignment, size);
        fail(errno);
        if at.is_null() {
            return libc::ENOMEM;
        }
        to.write(at);
    }
    0
}

/// # Safety
/// As `valloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_valloc(size: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe { __pcce_memalign(PAGE_SIZE, size) }
}

/// # Safety
/// As `pvalloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_pvalloc(size: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe { __pcce_memalign(PAGE_SIZE, size.checked_next_multiple_of(PAGE_SIZE).unwrap_or(usize::MAX)) }
}

/// The size that was asked for: the program may use no more.
///
/// # Safety
/// As `malloc_usable_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_malloc_usable_size(at: *mut u8) -> usize {
    if at.is_null() {
        return 0;
    }
    // SAFETY: by the caller, a block; of glibc's function of this type.
    unsafe {
        if let Some(block) = Header::read(at) {
            return block.size;
        }
        let theirs = libc::dlsym(libc::RTLD_NEXT, c"malloc_usable_size".as_ptr());
        if theirs.is_null() {
            return 0;
        }
        let theirs: unsafe extern "C" fn(*mut u8) -> usize = core::mem::transmute(theirs);
        theirs(at)
    }
}
