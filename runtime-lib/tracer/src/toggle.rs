//! A signal on which recording stops, or goes on.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{Ordering, fence};

use crate::file;
use crate::machine::RESTORER_FLAG;
use crate::output::complain;
use crate::sys::{self, Action};
use crate::{area, machine};

/// The environment variable that has the signal's number.
pub const VARIABLE: &CStr = c"PCCE_TRACE_SIGNAL";

/// Signals are numbered from 1 to 64.
const SIGNALS: c_int = 64;

/// Has recording started and stopped on the signal of this number.
pub fn on_signal(number: &CStr) {
    let signal = sys::number(number);
    let action = Action {
        handler: handle as *const () as usize,
        flags: (libc::SA_RESTART | libc::SA_ONSTACK) as u64 | RESTORER_FLAG,
        restorer: machine::restorer(),
        mask: 0,
    };
    if !(1..=SIGNALS).contains(&signal) || !action.set(signal) {
        complain(b"pcce: PCCE_TRACE_SIGNAL is not the number of a signal that can be caught\n");
    }
}

/// The thread that handles the signal may be about to write a word. So it is notified like the other threads, and looks
/// when its word is full.
unsafe extern "C" fn handle(_: c_int) {
    turn(!file::is_on(file::switches()));
}

/// Starts recording, or stops it, in all threads.
pub fn turn(on: bool) {
    if file::switch(on) {
        // Either this finds the area of a stream that arms itself, and the limit that it sets, or the stream finds the
        // change (`stream::arm`).
        fence(Ordering::SeqCst);
        for area in area::all() {
            // SAFETY: areas stay where they are.
            unsafe { (*area).fast.limit.store(0, Ordering::Relaxed) };
        }
    }
}
