//! Traces of calls: every call and return of a program, from the bits that it wrote (after casper.txt; the
//! formats are in `docs/formats.md`).
//!
//! [`file`] has the chunks, [`bits`] a stream's bits, and [`tables`] the events that can follow each other;
//! [`replay`] makes one [`event`] after the other of these. [`compress`](mod@compress) makes a file smaller,
//! which is then read like any other, and [`mod@merge`] makes one trace of parts. [`views`] shows the events.
//!
//! A trace is read in pieces and never held in memory. Nothing in it is trusted: where bytes are damaged, or
//! the activations are unknown, there is an explicit gap, and never an event that was not there.

mod bits;
mod compress;
mod compressed;
mod event;
mod file;
mod parts;
mod programs;
mod reader;
mod replay;
mod tables;
mod views;

pub use compress::{CompressError, Compression, compress};
pub use event::{End, Event, EventKind, GapCause};
pub use file::{ChunkAt, Image, Stream, TraceError, TraceFile};
pub use parts::proven;
pub use parts::{Balance, BalanceError, Difference, Merged, PartFile, PartsError, Split, balance, merge};
pub use programs::{Programs, TablesCause, TablesError, is_untraced, untraced_libraries};
pub use reader::Reader;
pub use replay::{Active, OPEN, Replay, UNKNOWN, Verified};
pub use tables::{InvalidTables, NONE, Tables};
pub use views::align::{Hunk, Numbered, Rest};
pub use views::check::{Checked, check};
pub use views::context::context;
pub use views::coverage::{Coverage, coverage};
pub use views::diff::{Compared, Diff, Pair, Parting, Side, diff};
pub use views::export;
pub use views::find::{at, find};
pub use views::named::{Met, Named};
pub use views::report::{Report, Row, report};
pub use views::selection::Selection;
pub use views::show::{heading, line_of, show};
pub use views::spans::Callee;
pub use views::stats::{Stats, stats};
