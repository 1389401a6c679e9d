//! The interned numbers: what they stand for in this process, and in the file of numbers.
//!
//! A chain of frames is known by its innermost frame and the number of the chain outwards, a context likewise. The
//! addresses of an interrupted point are numbered as frames behind that of the signal, and so are places in libraries.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::abi::numbers::{Entry, Record};
use crate::fiber::UNKNOWN_SITE;
use crate::intern::{Interner, Key, Numbering};
use crate::{numbers, offset, place, signal};

/// Everything that has an interned number. The key of a chain is (number of the chain outwards of its innermost frame,
/// name of the site, id); a context's is the same with its capture site and current id, or one of the constants below
/// and a number.
pub static CHAINS: Interner<()> =
    Interner::numbered(Numbering { next: numbers::next, written: numbers::written });

/// Set in the name of a site in keys of frames whose function has left its activation to another one. No name has
/// this bit.
pub const LEFT: u64 = 1 << 62;
/// Set in the middle word of keys of places: (first bytes of the build id, how many, address in the image).
pub const PLACE: u64 = 1 << 61;
/// Set in names of addresses in code, in keys whose last word tells whether they are program counters.
pub const ADDRESS: u64 = 1 << 60;

/// Stands for the site in keys whose last word is a number in a function's range. No address of a site.
pub const RANGE: u64 = 2;
/// Stands for the site in keys whose last word is a stack offset, and whose first one the number of what has it.
pub const OFFSET: u64 = 3;
/// Stands for the site in keys of captures by code that is not instrumented, with the id.
pub const POINT: u64 = 4;
/// Stands for the site in keys whose last word is a [`PointEnd`](crate::abi::numbers::PointEnd).
pub const END: u64 = 5;

/// What names of sites have that are numbers of places.
pub const INTERNED: u64 = 1 << 63;

/// The record of a key. None if there is no memory, or no number, for a place in it.
pub fn record(key: &Key) -> Option<Record> {
    let &[first, middle, last] = key;
    if middle & (PLACE | INTERNED) == PLACE {
        let len = (middle ^ PLACE) as u8;
        // An address that nobody could use would tell where the process has its memory.
        let known = len > 0 || first != place::NO_IMAGE;
        let (build_id, address) = if known { (first.to_le_bytes(), last) } else { ([0; 8], 0) };
        return Some(Record { entry: Entry::Place { build_id, len, address }, hybrid: offset::is_used() });
    }
    let outer = if first == 0 { place_number(0)? } else { first };
    let name = middle & !(LEFT | ADDRESS);
    let entry = match middle {
        _ if middle == UNKNOWN_SITE as u64 => Entry::Unknown { outer, start_missing: last != 0 },
        RANGE => Entry::Range { outer, number: last },
        OFFSET => Entry::Offset { outer, distance: last },
        POINT => Entry::Point { outer, id: last },
        END => Entry::End { outer, end: crate::abi::numbers::PointEnd::from_bits(last)? },
        _ if middle & ADDRESS != 0 => Entry::Address { outer, place: place_number(name)?, exact: last != 0 },
        _ if Some(name) == signal_name() => Entry::Signal { outer, id: last },
        _ => Entry::Site { outer, place: place_number(name)?, id: last, left: middle & LEFT != 0 },
    };
    Some(Record { entry, hybrid: offset::is_used() })
}

/// The number of the place with a name; 0 names the place 0 of the program.
fn place_number(name: u64) -> Option<u64> {
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
