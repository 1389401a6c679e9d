//! The facts of the module. They are read after everything that prepares it ([`crate::prepare`]); nothing is
//! changed.
//!
//! [`gather`] reads the code, and numbers functions, calls and types. The rest needs no LLVM: `pcce-model`
//! makes the call graph of the facts.

mod assembly;
pub mod eligible;
mod entered;
mod gather;
mod inserted;
mod named;
mod resolve;

pub use assembly::{is_in as has_assembly, names as assembly_names};
pub use entered::{Entered, are_called_within, entered_but_as_handlers, entered_unpushed, entered_unseen};
pub use gather::{Gathered, Knowledge, gather};
pub use named::Named;
pub use resolve::{Binding, Target, is_exact, resolve};
