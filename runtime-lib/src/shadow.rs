//! MemorySanitizer's knowledge of memory. It does not see stores of code that it has not compiled, such as the runtime.
//! The wrapper gives its functions names of ours, which programs without it need not look up at their start.

use core::ffi::c_void;
use core::mem::transmute;
use core::ptr::copy_nonoverlapping;

use pcce_system::weak_address;

/// Tells MemorySanitizer that the runtime has written `size` bytes.
#[inline(never)]
pub fn written(at: *const c_void, size: usize) {
    let unpoison = weak_address!("__pcce_msan_unpoison");
    if !unpoison.is_null() {
        // SAFETY: MemorySanitizer's function, which changes no memory of the program's.
        unsafe {
            transmute::<*const u8, unsafe extern "C" fn(*const c_void, usize)>(unpoison)(at, size);
        }
    }
}

/// Copies a value, and whether it is initialised.
///
/// # Safety
/// `from` is readable, and `to` writable.
pub unsafe fn copy<T>(from: *const T, to: *mut T) {
    let copy = weak_address!("__pcce_msan_memcpy");
    // SAFETY: by the contract; MemorySanitizer's function does what `memcpy` does.
    unsafe {
        if copy.is_null() {
            return copy_nonoverlapping(from, to, 1);
        }
        transmute::<*const u8, unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void>(copy)(
            to.cast(),
            from.cast(),
            size_of::<T>(),
        );
    }
}
