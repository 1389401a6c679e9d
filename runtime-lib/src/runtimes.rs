//! How many runtimes the process has. It should have one: the executable exports its own, and its libraries find that.
//! There are two where the executable hides its names (`--exclude-libs=ALL`, a version script), where a library's
//! own names come before them (`RTLD_DEEPBIND`), or where a static program loads a library. Each then knows only its
//! own images' calls, and tokens say so.
//!
//! The executable's runtime is found by a note, which no linker hides and `strip` leaves.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::image::Image;
use crate::machine::bound_version;

const NOT_LOOKED: u8 = 0;
const ONE: u8 = 1;
const SEVERAL: u8 = 2;
/// This copy is called by code that has found it by its name, and has itself found another copy's variables.
const MIXED: u8 = 3;

/// The mark after [`Known::result`].
const MARK: [u8; 7] = *b"PCCE rt";

/// The place to which the executable's note leads.
#[repr(C, align(8))]
pub struct Known {
    result: AtomicU8,
    mark: [u8; 7],
}

/// The result of [`look`]. The other runtime writes it to the executable's copy, too.
pub static KNOWN: Known = Known { result: AtomicU8::new(NOT_LOOKED), mark: MARK };

/// The validity of this runtime's tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runtimes {
    /// All instrumented code of the process uses this one.
    One,
    /// Other images' code uses another one.
    Several,
    /// The state is another one's: nothing is known.
    Mixed,
}

/// The runtimes of the process. Looks for them when it is first called.
pub fn runtimes() -> Runtimes {
    let known = match KNOWN.result.load(Ordering::Relaxed) {
        NOT_LOOKED => look(),
        known => known,
    };
    match known {
        ONE => Runtimes::One,
        MIXED => Runtimes::Mixed,
        _ => Runtimes::Several,
    }
}

/// Returns whether the executable has a runtime, so that its `setjmp` and `longjmp` are the runtime's
/// ([`crate::jump`]).
pub fn jumps_are_seen() -> bool {
    static SEEN: AtomicU8 = AtomicU8::new(NOT_LOOKED);
    match SEEN.load(Ordering::Relaxed) {
        NOT_LOOKED => {
            let seen = Image::runtime_of_program(&MARK).is_some();
            SEEN.store(if seen { ONE } else { SEVERAL }, Ordering::Relaxed);
            seen
        }
        known => known == ONE,
    }
}

/// Looks for other runtimes, by the start of the one whose names are found first.
pub fn look() -> u8 {
    let own = (&raw const KNOWN).cast::<u8>();
    let program = Image::runtime_of_program(&MARK).unwrap_or(own);
    let found = if program == own {
        ONE
    } else if Image::start_of(bound_version()) == Image::start_of(own) {
        // SAFETY: the note is that of another copy of this library, and has the address of this variable there.
        unsafe { (*program.cast::<AtomicU8>()).store(SEVERAL, Ordering::Relaxed) };
        SEVERAL
    } else {
        MIXED
    };
    match KNOWN.result.compare_exchange(NOT_LOOKED, found, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => found,
        Err(known) => known,
    }
}
