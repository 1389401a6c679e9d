//! Traces for other programs: trace viewers, flame graphs, and a picture.
//!
//! The clock is known where chunks begin and end. Between these, times go on evenly with what the thread has
//! written.

use crate::trace::reader::Reader;
use crate::trace::replay::Replay;

mod chrome;
mod folded;
mod perfetto;
mod timeline;

pub use chrome::chrome;
pub use folded::{Folded, folded};
pub use perfetto::perfetto;
pub use timeline::timeline;

struct Clock {
    /// Where the trace begins.
    start: u64,
    last: u64,
}

impl Clock {
    fn new(reader: &Reader<'_>) -> Self {
        Self { start: reader.start(), last: 0 }
    }

    /// The time of the event that was read last, in nanoseconds from the trace's beginning. It is later than
    /// all times before.
    fn now(&mut self, replay: &Replay<'_>) -> u64 {
        self.last = replay.time().saturating_sub(self.start).max(self.last + 1);
        self.last
    }
}
