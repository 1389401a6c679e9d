//! Traces for other programs: trace viewers, flame graphs, and a picture.
//!
//! Times are numbers of events: one event takes a nanosecond. The clock is known where chunks begin only.

mod chrome;
mod folded;
mod perfetto;
mod timeline;

pub use chrome::chrome;
pub use folded::folded;
pub use perfetto::perfetto;
pub use timeline::timeline;
