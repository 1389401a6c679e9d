//! Traces of calls: the call site control flow graph of each function (casper.txt, Definition 1) is read,
//! `pcce-tracing` decides what its nodes write, and code is added that does.
//!
//! It goes along with the encoding of contexts, of whose facts it makes use: [`gather`] and [`insert`] come when the
//! calls are as they will stay, and before anything is done to them. What splits blocks, or hides what calls call,
//! comes when contexts are done ([`finish`]); until then calls of [`APPEND`] stand for it.

mod emit;
mod gather;

pub use emit::{Before, finish, insert};
pub use gather::gather;

/// Stands for appended bits.
const APPEND: &str = "__pcce_trace_append";
