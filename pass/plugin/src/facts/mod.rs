//! What the module's code says: read only, after everything that prepares it ([`crate::prepare`]).
//!
//! [`gather`] reads the code and numbers functions, calls and types. From then on LLVM is out of sight: [`derive`]
//! makes the call graph of what was gathered, and says what follows from it for each function.

mod assembly;
pub mod eligible;
mod entered;
mod gather;
mod graph;
mod groups;
mod inserted;
mod lists;
mod profile;
mod program;
mod resolve;
mod silent;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use entered::{Entered, entered_unpushed};
pub use gather::{Knowledge, gather};
pub use graph::derive;
pub use groups::pointers_to;
pub use lists::{NoCallback, Targets};
pub use profile::{Profile, counted};
#[cfg(test)]
pub use program::TailCallee;
pub use program::{
    AddressPlaces, Call, CallKind, Function, Pointer, Program, RuntimeCall, STD_THREAD, Source,
    SourceLocation, TypeId, Unannounced,
};
pub use resolve::is_exact;

/// What the call graph is made for.
#[derive(Clone, Copy)]
pub struct Mode<'a> {
    /// The module is the executable's, built as a whole, so that its calls through pointers need not push: a graph with
    /// an open node.
    pub open: bool,
    /// Calls that may allocate are published.
    pub publishes: bool,
    /// Functions so many calls above the leaves are silent; in targeted mode, instead, those that reach no target.
    pub leaf_depth: u32,
    /// In targeted mode.
    pub targets: Option<&'a Targets>,
}
