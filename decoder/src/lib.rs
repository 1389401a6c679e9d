//! Reads the context tokens of instrumented programs back into the chains of calls that they stand for.
//!
//! The modules, in the order in which a token passes through them:
//!
//! | module | what it does |
//! |---|---|
//! | [`token`], [`numbers`] | read the text of a token, or the parts of a token that an interned number stands for |
//! | [`load`] | gets dictionaries: from their JSON form, from programs, from separate debug files |
//! | `images` | what dictionaries say: `symbols` (what exists) and `encodings` (what ids mean), checked |
//! | `code` | what a program's machine code has done to the id at any instruction |
//! | [`decode`] | puts token and images together into a [`context`] |
//! | `show` | writes contexts ([`render`], in a [`style`]) and the call [`graph`] |
//! | [`session`] | all of that for many tokens: those in a text ([`filter`]), those of many builds ([`store`]) |
//! | [`core_file`] | makes the tokens of a core file's threads, as a crash report |
//! | [`learn`] | makes a profile of calls of contexts |
//! | [`profile`], [`trace`] | profiles by context, and traces of calls |
//! | [`verified`] | compares contexts with the shadow stack of verify mode |
//!
//! No input is trusted: bad input gives an error with cause and cure, never a panic, and never a guessed frame.

#![forbid(unsafe_code)]

mod code;
pub mod context;
pub mod core_file;
pub mod decode;
mod images;
pub mod learn;
pub mod load;
pub mod numbers;
pub mod printable;
pub mod profile;
pub mod session;
mod show;
mod source;
mod source_path;
pub mod token;
pub mod trace;
pub mod verified;

pub use code::elf::{ELF_MAGIC, tls_offset};
pub use context::{Context, Frame, FrameKind};
pub use core_file::crash_report;
pub use decode::{DecodeError, Decoder};
pub use images::{Cause, InvalidDictionary};
pub use load::{debug_files, program};
pub use pcce_names as names;
pub use session::{filter, json_lines, store};
pub use show::{folding, graph, render, standing, style};
pub use token::{Token, TokenError};
