//! Stack offsets, in executables with a hybrid encoding (pcce.txt §6): the distance of an activation below the
//! beginning of its sub-path.
//!
//! The context determines the distance of a frame, and of the point of a capture, from the place where their sub-path
//! begins: the pushed frame, or the stack pointer at the entry of `main`. The distance is taken only where the function
//! needs it to distinguish contexts, and only from places that the encoding knows: bytes of the site array say so. The
//! decoder needs the layout of functions' frames to interpret the distance; for equality the distance alone is enough.
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::{Frame, Link, SiteByte};
use crate::fiber::{UNKNOWN_SITE, is_unknown};
use crate::own::Own;
use crate::signal;
use crate::state::tls;
use crate::unwind::Process as _;
use pcce_system::weak_address;

/// The canonical frame address of `main`'s activation; 0 before it is entered. Emitted code writes it.
#[unsafe(no_mangle)]
pub static __pcce_main_base: AtomicUsize = AtomicUsize::new(0);

/// Returns whether the executable has a hybrid encoding.
#[inline(always)]
pub fn is_used() -> bool {
    !weak_address!("__pcce_hybrid").is_null()
}

/// The byte of a site ([`SiteByte`]).
pub fn flags(site: *const u8, process: Option<&mut Own>) -> u8 {
    if site.is_null() || site == UNKNOWN_SITE || signal::is_site(site) {
        return 0;
    }
    match process {
        // SAFETY: a site of a loaded module.
        None => unsafe { site.read() },
        Some(process) => {
            let word = process.word(site.addr() & !7).unwrap_or(0);
            word.to_le_bytes()[site.addr() & 7]
        }
    }
}

/// The address from which distances count in the sub-path above a link; 0 where it is not known. `site`: the site of
/// the frame to which the link leads. `process`: to read memory that may be damaged.
#[inline(never)]
pub fn base(outer: Link, site: *const u8, process: Option<&mut Own>) -> usize {
    if !is_used() {
        return 0;
    }
    if outer.is_null() {
        let base = __pcce_main_base.load(Ordering::Relaxed);
        // SAFETY: this thread's block.
        let (low, high) = unsafe { ((*tls()).stack_low, (*tls()).stack_high) };
        let on_other_stack = high != 0 && !(low..high).contains(&base);
        return if on_other_stack { 0 } else { base };
    }
    let known = !is_unknown(outer) && flags(site, process) & SiteByte::KNOWN_BASE != 0;
    if known { outer.frame().addr() } else { 0 }
}

/// The distance of a place in the function of a site below `base`, in words; 0 if it is not known, or the function does
/// not need it.
#[inline(never)]
pub fn distance(site: *const u8, place: usize, base: usize, process: Option<&mut Own>) -> u64 {
    if base > place && flags(site, process) & SiteByte::NEEDS_OFFSET != 0 {
        SiteByte::distance(place, base)
    } else {
        0
    }
}

/// The distance of a live frame.
///
/// # Safety
/// The frame is on the calling thread's chain, and so is the one to which its link leads, if any.
pub unsafe fn of_frame(frame: *const Frame) -> u64 {
    // SAFETY: by the contract.
    unsafe { at((*frame).site(), frame.addr(), (*frame).prev) }
}

/// The distance of a place in the function of a site, whose sub-path begins above `outer`.
///
/// # Safety
/// `outer` is null or leads to a frame of the calling thread's chain.
pub unsafe fn at(site: *const u8, place: usize, outer: Link) -> u64 {
    if !is_used() {
        return 0;
    }
    // SAFETY: by the contract.
    distance(site, place, unsafe { live_base(outer) }, None)
}

/// The address from which distances count in the sub-path above a link; 0 where it is not known.
///
/// # Safety
/// `outer` is null or leads to a frame of the calling thread's chain.
pub unsafe fn live_base(outer: Link) -> usize {
    // SAFETY: by the contract.
    let site = if outer.is_null() { core::ptr::null() } else { unsafe { (*outer.frame()).site() } };
    base(outer, site, None)
}
