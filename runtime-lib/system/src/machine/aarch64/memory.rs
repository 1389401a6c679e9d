//! The functions of libc that compiled code calls by itself: copies and the like.
//!
//! Only this library sees these (`scripts/build-runtime` keeps them from being visible): it needs no symbols of libc
//! for them, and the program's own, which may be instrumented or damaged, are not called by signal handlers.
//!
//! The loops are in assembly: the compiler would turn loops of plain copies into calls of the functions that contain
//! the loops.

use core::arch::asm;
use core::ffi::{c_int, c_void};

/// Copies 16 bytes, all of which are read before any is written.
#[inline(always)]
unsafe fn copy_16(to: *mut u8, from: *const u8) {
    // SAFETY: by the caller: there are 16 bytes.
    unsafe {
        asm!("ldr {x:q}, [{from}]", "str {x:q}, [{to}]", x = out(vreg) _, from = in(reg) from, to = in(reg) to,
            options(nostack, preserves_flags));
    }
}

/// Copies one byte after the other, upwards.
#[inline(always)]
unsafe fn copy_upwards(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by the caller: `len` bytes each.
    unsafe {
        asm!(
            "cbz {len}, 3f",
            "2: ldrb {byte:w}, [{from}], #1",
            "strb {byte:w}, [{to}], #1",
            "subs {len}, {len}, #1",
            "b.ne 2b",
            "3:",
            byte = out(reg) _,
            len = inout(reg) len => _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            options(nostack),
        );
    }
}

#[cfg_attr(feature = "freestanding", unsafe(no_mangle))]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: by the caller: `len` bytes, which do not overlap.
    unsafe {
        if len < 16 {
            copy_upwards(to, from, len);
            return to;
        }
        let last = len - 16;
        let mut at = 0;
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
    // SAFETY: by the caller: `len` bytes. The copy goes away from the overlap.
    unsafe {
        if (to as usize).wrapping_sub(from as usize) >= len {
            copy_upwards(to, from, len);
        } else {
            asm!(
                "cbz {len}, 3f",
                "2: sub {len}, {len}, #1",
                "ldrb {byte:w}, [{from}, {len}]",
                "strb {byte:w}, [{to}, {len}]",
                "cbnz {len}, 2b",
                "3:",
                byte = out(reg) _,
                len = inout(reg) len => _,
                from = in(reg) from,
                to = in(reg) to,
                options(nostack, preserves_flags),
            );
        }
    }
    to
}

#[cfg_attr(feature = "freestanding", unsafe(no_mangle))]
pub unsafe extern "C" fn memset(to: *mut u8, byte: c_int, len: usize) -> *mut u8 {
    // SAFETY: by the caller: `len` bytes.
    unsafe {
        let words = u64::from(byte as u8) * 0x0101_0101_0101_0101;
        asm!(
            "2: cmp {len}, #8",
            "b.lo 3f",
            "str {words}, [{to}], #8",
            "sub {len}, {len}, #8",
            "b 2b",
            "3: cbz {len}, 4f",
            "strb {words:w}, [{to}], #1",
            "sub {len}, {len}, #1",
            "b 3b",
            "4:",
            words = in(reg) words,
            len = inout(reg) len => _,
            to = inout(reg) to => _,
            options(nostack),
        );
    }
    to
}

#[cfg_attr(feature = "freestanding", unsafe(no_mangle))]
pub unsafe extern "C" fn strlen(text: *const c_void) -> usize {
    let end: usize;
    // SAFETY: by the caller: there is a zero.
    unsafe {
        asm!(
            "2: ldrb {byte:w}, [{at}], #1",
            "cbnz {byte:w}, 2b",
            byte = out(reg) _,
            at = inout(reg) text as usize => end,
            options(nostack, readonly, preserves_flags),
        );
    }
    end - 1 - text as usize
}
