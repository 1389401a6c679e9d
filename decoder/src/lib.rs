//! Reads the context tokens of instrumented programs back into the chains of calls that they stand for.
//!
//! The steps, each a module: [`token`] reads the text of a token; [`load`] and [`program`] get the
//! dictionary, from its JSON form or from the program; [`decode`] puts both together into a
//! [`trace`]; [`render`] writes it. For tokens taken at any instruction, `code` finds in the machine code what the
//! program had done to the id there, and `point` uses it. [`session`] runs all of them over many tokens, and [`filter`]
//! over the tokens in a text. [`core`] makes the tokens of a core file's threads, as a [`report`]; [`debug`] finds
//! separate debug files.
//!
//! Nothing that is read is trusted: bad input gives an error with cause and cure, never a panic, and
//! never a guessed frame.

#![forbid(unsafe_code)]

mod code;
pub mod core;
pub mod debug;
pub mod decode;
pub mod filter;
pub mod graph;
pub mod load;
pub mod names;
mod point;
pub mod printable;
pub mod profile;
pub mod program;
pub mod render;
pub mod report;
pub mod session;
mod tables;
mod thread;
pub mod token;
pub mod trace;

pub use code::tls_offset;
pub use decode::{DecodeError, Decoder};
pub use tables::{Cause, InvalidDictionary};
pub use token::{Token, TokenError};
pub use trace::{Frame, FrameKind, Trace};
