//! Reads the context tokens of instrumented programs back into the chains of calls that they stand for.
//!
//! The steps, each a module: [`token`] reads the text of a token; [`load`] and [`program`] get the dictionary,
//! from its JSON form or from the program; [`decode`] puts both together into a [`context`]; [`render`] writes it,
//! in a [`style`]. What the dictionaries say is in `symbols` (what exists) and `encodings` (what ids mean). For
//! tokens taken at any instruction, `code` finds in the machine code what the program had done to the id there.
//! [`session`] runs all of them over many tokens, and [`filter`] over the tokens in a text. [`core`] makes the
//! tokens of a core file's threads, as a [`report`]; [`debug`] finds separate debug files, and [`store`] dictionaries
//! by build id. [`numbers`] makes the parts of a token of an interned number.
//!
//! Nothing that is read is trusted: bad input gives an error with cause and cure, never a panic, and
//! never a guessed frame.

#![forbid(unsafe_code)]

mod code;
pub mod context;
pub mod core;
pub mod debug;
pub mod decode;
mod encodings;
pub mod filter;
mod frames;
pub mod graph;
mod images;
mod invalid;
pub mod load;
pub mod numbers;
pub mod printable;
pub mod profile;
pub mod program;
pub mod render;
pub mod report;
pub mod session;
pub mod standing;
pub mod store;
pub mod style;
mod symbols;
mod tail_groups;
mod thread;
pub mod token;
pub mod trace;
pub mod verified;

pub use code::tls_offset;
pub use context::{Context, Frame, FrameKind};
pub use decode::{DecodeError, Decoder};
pub use invalid::{Cause, InvalidDictionary};
pub use pcce_names as names;
pub use token::{Token, TokenError};
