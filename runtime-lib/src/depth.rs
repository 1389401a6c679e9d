//! Verify mode's statistics: how deep contexts are, at every function entry.
//!
//! Two depths are counted: that of the plain stack (activations of instrumented functions) and that of the encoding
//! (pushed frames), as pcce.txt Table 2 and Fig. 9 compare them. Each process appends at its exit, to the file that
//! [`VARIABLE`] names, one line for each depth that occurred: `plain DEPTH ENTRIES` and `frames DEPTH ENTRIES`. Depths
//! from [`DEPTHS`] - 1 on are counted as one, that one.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::output::FileName;
use crate::text::print_to;

/// Names the file; nothing is counted without it.
pub const VARIABLE: &CStr = c"PCCE_VERIFY_DEPTHS";
/// The number of depths that are counted separately.
const DEPTHS: usize = 4096;

/// The file, remembered at the first function entry.
pub static FILE: FileName = FileName::new();
static PLAIN: [AtomicU64; DEPTHS] = [const { AtomicU64::new(0) }; DEPTHS];
static FRAMES: [AtomicU64; DEPTHS] = [const { AtomicU64::new(0) }; DEPTHS];

pub fn count(plain: u64, frames: u64) {
    if FILE.is_named() {
        for (counters, depth) in [(&PLAIN, plain), (&FRAMES, frames)] {
            counters[(depth as usize).min(DEPTHS - 1)].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Begins again, in the child of a process that counts.
pub fn reset() {
    if FILE.is_named() {
        PLAIN.iter().chain(&FRAMES).for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

/// Appends the lines of this process.
pub fn report() {
    if FILE.is_named() {
        for (name, counters) in [("plain", &PLAIN), ("frames", &FRAMES)] {
            for (depth, counter) in counters.iter().enumerate() {
                let entries = counter.load(Ordering::Relaxed);
                if entries > 0 {
                    print_to(&FILE, format_args!("{name} {depth} {entries}"));
                }
            }
        }
    }
}
