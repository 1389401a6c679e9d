//! The facts that the pass, the runtime library and the decoder share, each once:
//!
//! - the thread's block, pushed frames, the names of functions: what emitted code relies on (`block`);
//! - verify mode's records (`verify`), and what they are made of ([`tables`]);
//! - [`token`]: constants of the tokens' format;
//! - [`skeleton`]: objects whose code is generated at the link;
//! - [`numbers`]: the file of numbers; [`chains`]: what it is made from in a process;
//! - [`trace`]: traces of calls, in the thread and in the file;
//! - [`exports`]: the symbols that the runtime's archives define;
//! - [`machine`]: instruction sets;
//! - [`unwind`]: the walk over the stack of an interrupted point, in this process or in a core file.
//!
//! Only the code that makes tables allocates.

#![no_std]

#[cfg(feature = "tables")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod block;
pub mod chains;
pub mod exports;
pub mod machine;
pub mod numbers;
pub mod skeleton;
#[cfg(feature = "tables")]
pub mod tables;
pub mod token;
pub mod trace;
#[cfg(feature = "unwind")]
pub mod unwind;
mod verify;

pub use block::*;
pub use verify::*;
