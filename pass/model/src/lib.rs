//! The program model: the facts about a program, and the decisions of the pass. Nothing here sees LLVM.
//!
//! Functions and calls are dense numbers; the plugin keeps handles to their code in a table. [`derive()`]
//! makes the call graph of the facts, and derives further facts about each function. `pcce-encoding` numbers
//! the graph, and [`plan::plan`] plans the action at each call, and writes the dictionary from the same
//! values.

#![forbid(unsafe_code)]

pub mod bound;
pub mod copies;
mod error;
mod graph;
pub mod hybrid;
mod lists;
pub mod numbers;
pub mod plan;
mod profile;
mod program;
pub mod replaceable;
mod silent;
pub mod slice;
pub mod states;
pub mod tail_calls;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod thunks;
pub mod verify;

pub use error::Error;
pub use graph::derive;
pub use lists::{
    NoCallback, Patterns, Targets, Wanted, called_within, makes_streams, missing_target, names, names_of,
    sets_handlers,
};
pub use profile::{Candidate, Matched, Profile, counted};
pub use program::{
    AddressPlaces, Call, CallKind, Function, Pointer, Program, Reach, RuntimeCall, STD_THREAD, Source,
    SourceLocation, TailCallee, TypeId, Unannounced, ids,
};
pub use tail_calls::Jumps;

/// The properties of the program that shape its call graph.
#[derive(Clone, Copy)]
pub struct Mode<'a> {
    /// The module belongs to an executable built as a whole, so that its calls through pointers need not
    /// push: the graph has an open node.
    pub open: bool,
    /// Calls that may allocate are published.
    pub publishes: bool,
    /// Functions that reach nothing unknown are silent. (In targeted mode, functions that reach no target
    /// always are.)
    pub silent: bool,
    /// The targets, in targeted mode.
    pub targets: Option<&'a Targets>,
    /// Calls that leave the module reach no target: it is an executable built as a whole.
    pub closed: bool,
}
