//! The program model: what the pass knows of a program, and what it decides. Nothing here sees LLVM.
//!
//! Functions and calls are dense numbers; handles to their code stand in a table of the plugin. [`derive()`] makes the
//! call graph of what was read, and says what follows from it for each function. `pcce-encoding` numbers the graph, and
//! [`plan::plan`] says what is done at each call, and writes the dictionary from the same values.

#![forbid(unsafe_code)]

pub mod bound;
mod error;
mod graph;
pub mod hybrid;
mod lists;
pub mod plan;
mod profile;
mod program;
mod silent;
pub mod slice;
pub mod tail_calls;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod thunks;

pub use error::Error;
pub use graph::derive;
pub use lists::{
    NoCallback, Patterns, Targets, Wanted, called_within, makes_streams, missing_target, names, sets_handlers,
};
pub use profile::{Candidate, Matched, Profile, counted};
pub use program::{
    AddressPlaces, Call, CallKind, Function, Pointer, Program, RuntimeCall, STD_THREAD, Source,
    SourceLocation, TailCallee, TypeId, Unannounced, ids,
};
pub use tail_calls::Jumps;

/// What the call graph is made for.
#[derive(Clone, Copy)]
pub struct Mode<'a> {
    /// The module is the executable's, built as a whole, so that its calls through pointers need not push: a graph with
    /// an open node.
    pub open: bool,
    /// Calls that may allocate are published.
    pub publishes: bool,
    /// Functions that reach nothing unknown are silent; in targeted mode, always, those that reach no target.
    pub silent: bool,
    /// In targeted mode.
    pub targets: Option<&'a Targets>,
    /// Calls that leave what is seen here reach no target: it is an executable built as a whole.
    pub closed: bool,
}
