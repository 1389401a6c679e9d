//! Images that are instrumented, and not in verify mode: the shadow stack does not have their activations, so what they
//! call cannot be compared.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::print;
use crate::abi::{FunctionRecord, Link};
use crate::fiber::is_unknown;
use crate::image::Image;
use crate::signal;

/// An image in verify mode: where it is.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
}

impl Place {
    fn has(&self, address: usize) -> bool {
        let (start, end) = (self.start.load(Ordering::Relaxed), self.end.load(Ordering::Acquire));
        (start..end).contains(&address)
    }
}

/// Those of which a function was entered.
static PLACES: [Place; 256] = [const { Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; 256];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The one of which a function was entered last.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Entries that were not compared.
pub(super) static MIXED: AtomicU64 = AtomicU64::new(0);
static TOLD: AtomicBool = AtomicBool::new(false);

/// A function is entered that is in verify mode.
pub(super) fn entered(function: *const FunctionRecord) {
    let address = function.addr();
    let places = &PLACES[..COUNT.load(Ordering::Acquire).min(PLACES.len())];
    if places.get(LAST.load(Ordering::Relaxed)).is_some_and(|place| place.has(address)) {
        return;
    }
    if let Some(known) = places.iter().position(|place| place.has(address)) {
        LAST.store(known, Ordering::Relaxed);
    } else if let Some(image) = Image::of(function.cast()) {
        let new = COUNT.fetch_add(1, Ordering::AcqRel);
        if let Some(place) = PLACES.get(new) {
            place.start.store(image.start.addr(), Ordering::Relaxed);
            place.end.store(image.end.addr(), Ordering::Release);
        }
    }
}

/// Whether a frame of the chain was pushed by an image of which no function in verify mode was ever entered. The user
/// is told once.
///
/// # Safety
/// The chain is this thread's, and can be followed.
pub(super) unsafe fn is_mixed(top: Link) -> bool {
    if COUNT.load(Ordering::Acquire) > PLACES.len() {
        return false;
    }
    let mut at = top;
    while !at.is_null() && !is_unknown(at) {
        // SAFETY: by the contract.
        let (site, prev) = unsafe { ((*at.frame()).site(), (*at.frame()).prev) };
        if signal::is_site(site) {
            return false;
        }
        if !site.is_null() && !PLACES.iter().any(|place| place.has(site.addr())) {
            MIXED.fetch_add(1, Ordering::Relaxed);
            if !TOLD.swap(true, Ordering::Relaxed) {
                tell(site);
            }
            return true;
        }
        at = prev;
    }
    false
}

fn tell(site: *const u8) {
    // SAFETY: the loader's text.
    let file = Image::of(site)
        .filter(|image| !image.file.is_null())
        .map(|image| unsafe { CStr::from_ptr(image.file) });
    let file =
        file.and_then(|file| file.to_str().ok()).filter(|file| !file.is_empty()).unwrap_or("the program");
    print(format_args!(
        "pcce verify: {file} is instrumented without --pcce-verify, and calls code in verify mode: that cannot be \
         compared; build both with --pcce-verify"
    ));
}
