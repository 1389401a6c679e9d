//! Traces of calls: every call and return of a program, from the bits that it wrote (after casper.txt; the formats are
//! in `docs/formats.md`).
//!
//! [`file`] knows the chunks, [`bits`] a stream's bits, [`tables`] what can follow what; [`machine`] puts them
//! together, and tells one [`event`] after the other. [`compress`](mod@compress) makes a file smaller, which is read
//! like any other, and [`mod@merge`] makes one trace of parts. The other modules show them.
//!
//! A trace is read in pieces and never held in memory. Nothing in it is trusted: where bytes are damaged, or nobody
//! knows what was active, there is an explicit gap, and never an event that was not there.

mod begin;
mod bits;
mod check;
mod compress;
mod compressed;
mod context;
mod contexts;
mod coverage;
mod diff;
mod event;
pub mod export;
mod file;
mod find;
mod images;
mod jumps;
mod machine;
mod named;
mod parts;
mod reader;
mod report;
mod show;
mod source;
mod spans;
mod stats;
mod tables;

pub use check::{Checked, check};
pub use compress::{CompressError, Compression, compress};
pub use context::context;
pub use coverage::{Coverage, coverage};
pub use diff::{Diff, Pair, Parting, Side, diff};
pub use event::{End, Event, EventKind, Why};
pub use file::{ChunkAt, Image, Stream, TraceError, TraceFile};
pub use find::{at, find};
pub use images::{Programs, TablesCause, TablesError};
pub use machine::{Active, Machine, OPEN, UNKNOWN, Verified};
pub use named::{Met, Named};
pub use parts::{Difference, Merged, PartFile, PartsError, What, merge};
pub use reader::Reader;
pub use report::{Report, Row, report};
pub use show::{Selection, heading, show};
pub use spans::Callee;
pub use stats::{Stats, stats};
pub use tables::{InvalidTables, NONE, Tables};
