//! What the pass, the runtime library and the decoder share, each fact once:
//!
//! - the thread's block, pushed frames, verify mode's records, the names of functions: what emitted code relies on
//!   (`block`);
//! - [`token`]: constants of the tokens' format;
//! - [`exports`]: the symbols that the runtime's archives define;
//! - [`unwind`]: the walk over the stack of an interrupted point, in this process or in a core file.
//!
//! Nothing here allocates, and nothing but the walk has code of any size.

#![no_std]

#[cfg(test)]
extern crate std;

mod block;
pub mod exports;
pub mod token;
#[cfg(feature = "unwind")]
pub mod unwind;

pub use block::*;
