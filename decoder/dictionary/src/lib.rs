//! The on-disk types of the context dictionary.
//!
//! Three things are serialised, and nothing else in the project serialises any of them:
//!
//! - the **dictionary** of a program ([`Dictionary`]): a JSON document with the schema version
//!   first, read by `pcce decode` and by users' own scripts;
//! - the **fragment** of a module ([`fragment`]): what the pass puts into the non-loaded section
//!   [`fragment::SECTION`] of each object file, and the linker concatenates;
//! - the **profile of calls** ([`calls`]), which the instrumented program writes and the pass reads.
//!
//! The types are plain values. They are checked for shape here (version, syntax) and for meaning
//! (ranges, indices) by the decoder, which never trusts a file.

pub mod calls;
pub mod code;
pub mod fragment;
mod unpack;
pub mod v1;

pub use v1::{Dictionary, Edge, EdgeCode, Function, Location, Module, Site, SiteKind};

pub use unpack::{Unpacker, most_unpacked};

use thiserror::Error;

/// The schema version this build writes, and the newest one that it reads.
pub const SCHEMA_VERSION: u32 = 1;

/// Why a dictionary or a fragment was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DictionaryError {
    /// The input has no byte in it.
    #[error("the dictionary is empty (0 bytes); write it again with `pcce dict PROGRAM -o FILE`")]
    Empty,
    /// The input is not JSON, or it is JSON of another shape, or it was cut.
    #[error("the dictionary is damaged: {0}; write it again with `pcce dict PROGRAM -o FILE`")]
    Syntax(String),
    /// The dictionary was written by a newer release.
    #[error(
        "the dictionary has schema version {found}, and this pcce reads versions up to {supported}; use the pcce of the release that wrote it, or a newer one"
    )]
    Version {
        /// Version in the file.
        found: u32,
        /// Newest version that can be read.
        supported: u32,
    },
    /// A fragment in an object file or program is damaged.
    #[error("section {section}, offset {offset}: {what}; build the program again")]
    Fragment {
        /// Name of the section.
        section: &'static str,
        /// Byte offset of the fragment inside the section.
        offset: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// Reads the JSON form of a dictionary.
///
/// # Errors
/// [`DictionaryError::Empty`], [`DictionaryError::Syntax`] and [`DictionaryError::Version`]; never
/// panics, whatever the bytes.
pub fn from_json(bytes: &[u8]) -> Result<Dictionary, DictionaryError> {
    #[derive(serde::Deserialize)]
    struct Head {
        version: u32,
    }
    if bytes.is_empty() {
        return Err(DictionaryError::Empty);
    }
    let syntax = |e: serde_json::Error| DictionaryError::Syntax(e.to_string());
    // The version is read first, so that a newer dictionary, whose other fields may have any
    // shape, is refused by its version and not as damaged.
    let head: Head = serde_json::from_slice(bytes).map_err(syntax)?;
    if head.version != SCHEMA_VERSION {
        return Err(DictionaryError::Version { found: head.version, supported: SCHEMA_VERSION });
    }
    serde_json::from_slice(bytes).map_err(syntax)
}

/// Writes the JSON form of a dictionary.
#[must_use]
pub fn to_json(dictionary: &Dictionary) -> Vec<u8> {
    serde_json::to_vec(dictionary).expect("strings, integers and sequences always serialise")
}
