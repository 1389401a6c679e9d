//! The functions of libc that compiled code calls by itself: copies and the like.
//!
//! Only this library sees these (`scripts/build-runtime` keeps them from being visible): it needs no symbols of libc
//! for them, and the program's own, which may be instrumented or damaged, are not called by signal handlers.

use core::arch::asm;
use core::ffi::{c_int, c_void};

/// Copies 16 bytes. In assembly: the compiler would turn a loop of plain copies into a call of the function that
/// contains the loop.
#[inline(always)]
unsafe fn copy_16(to: *mut u8, from: *const u8) {
    // SAFETY: by the caller: there are 16 bytes.
    unsafe {
        asm!("movups {x}, [{from}]", "movups [{to}], {x}", x = out(xmm_reg) _, from = in(reg) from, to = in(reg) to,
            options(nostack, preserves_flags));
    }
}

#[cfg_attr(feature = "freestanding", unsafe(no_mangle))]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: by the caller: `len` bytes, which do not overlap.
    unsafe {
        if len < 16 {
            asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
                options(nostack, preserves_flags));
            return to;
        }
        let last = len - 16;
        let mut at = 0;
        while last - at >= 64 {
            copy_16(to.add(at), from.add(at));
            copy_16(to.add(at + 16), from.add(at + 16));
            copy_16(to.add(at + 32), from.add(at + 32));
            copy_16(to.add(at + 48), from.add(at + 48));
            at += 64;
        }
        while at < last {
            copy_16(to.add(at), from.add(at));
            at += 16;
        }
        copy_16(to.add(last), from.add(last));
    }
    to
}

#[cfg_attr(feature = "freestanding", unsafe(no_mangle))]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: by the caller: `len` bytes. The copy goes away from the overlap; the direction flag is clear again.
    unsafe {
        if (to as usize).wrapping_sub(from as usize) >= len {
            asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
                options(nostack, preserves_flags));
        } else {
            asm!("std", "rep movsb", "cld", inout("rcx") len => _, inout("rdi") to.add(len - 1) => _,
                inout("rsi") from.add(len - 1) => _, options(nostack));
        }
    }
    to
}

#[cfg_attr(feature = "freestanding", unsafe(no_mangle))]
pub unsafe extern "C" fn memset(to: *mut u8, byte: c_int, len: usize) -> *mut u8 {
    // SAFETY: by the caller: `len` bytes.
    unsafe {
        let words = u64::from(byte as u8) * 0x0101_0101_0101_0101;
        asm!("rep stosq", inout("rcx") len / 8 => _, inout("rdi") to => _, in("rax") words,
            options(nostack, preserves_flags));
        asm!("rep stosb", inout("rcx") len % 8 => _, inout("rdi") to.add(len & !7) => _, in("rax") words,
            options(nostack, preserves_flags));
    }
    to
}

#[cfg_attr(feature = "freestanding", unsafe(no_mangle))]
pub unsafe extern "C" fn strlen(text: *const c_void) -> usize {
    let left: usize;
    // SAFETY: by the caller: there is a zero.
    unsafe {
        asm!("repne scasb", inout("rcx") usize::MAX => left, inout("rdi") text => _, in("al") 0_u8,
            options(nostack, readonly));
    }
    !left - 1
}
