//! The interned numbers: their meaning in this process, and in the file of numbers.
//!
//! The key of a chain of frames is its innermost frame with the number of the rest of the chain. The key of a context
//! is the place where it was taken with the number of its chain. The addresses of an interrupted point are numbered
//! as further frames inside the signal's frame. Places in libraries have numbers, too.

use core::sync::atomic::{AtomicU64, Ordering};

pub use crate::abi::chains::{ADDRESS, END, INTERNED, LEFT, NO_IMAGE, OFFSET, PLACE, POINT, RANGE};
use crate::abi::chains::{UNKNOWN, entry};
use crate::abi::numbers::Record;
use crate::fiber::UNKNOWN_SITE;
use crate::intern::{Interner, Key, Numbering};
use crate::{numbers, offset, place, signal};

/// All keys that have an interned number. The key of a chain is (number of the chain outwards of its innermost frame,
/// name of the site, id). The key of a context has the capture site and the current id instead, or a constant and a
/// number. Exported for readers of core files.
#[unsafe(export_name = "__pcce_chains")]
pub static CHAINS: Interner<()> =
    Interner::numbered(Numbering { next: numbers::next, written: numbers::written });

/// The record of a key. None if there is no memory, or no number, for a place in it.
pub fn record(key: &Key) -> Option<Record> {
    debug_assert_eq!(UNKNOWN_SITE as u64, UNKNOWN);
    let entry = entry(key, |name| Some(name) == signal_name(), place_number)?;
    Some(Record { entry, hybrid: offset::is_used() })
}

/// The number of the place with a name; 0 names the place 0 of the program.
pub fn place_number(name: u64) -> Option<u64> {
    if name & INTERNED != 0 {
        return Some(name ^ INTERNED);
    }
    CHAINS.insert(&place::key(name)?, ())
}

/// The name of [`signal::site`], which never changes.
fn signal_name() -> Option<u64> {
    static NAME: AtomicU64 = AtomicU64::new(0);
    match NAME.load(Ordering::Relaxed) {
        0 => {
            let name = place::name(signal::site())?;
            NAME.store(name, Ordering::Relaxed);
            Some(name)
        }
        name => Some(name),
    }
}
