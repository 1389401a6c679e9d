//! The functions of libc that compare memory, and that compiled code calls by itself. Those that copy and fill are in
//! `memory.rs` of each machine, which says why they are here.

use core::ffi::c_int;

// Not inlined: the compiler turns calls with a known length into comparisons of words; inlined, they would be loops.
#[cfg_attr(feature = "freestanding", unsafe(no_mangle))]
#[inline(never)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> c_int {
    for i in 0..len {
        // SAFETY: by the caller: `len` bytes each.
        let (a, b) = unsafe { (*a.add(i), *b.add(i)) };
        if a != b {
            return c_int::from(a) - c_int::from(b);
        }
    }
    0
}

#[cfg_attr(feature = "freestanding", unsafe(no_mangle))]
#[inline(never)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> c_int {
    // SAFETY: passed on.
    unsafe { memcmp(a, b, len) }
}
