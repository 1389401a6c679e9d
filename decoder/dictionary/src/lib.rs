//! The on-disk types of the context dictionary.
//!
//! Three things are serialised, and nothing else in the project serialises any of them:
//!
//! - the **dictionary** of a program ([`Dictionary`]): a JSON document with the schema version
//!   first, read by `pcce decode` and by users' own scripts;
//! - the records of the non-loaded [`section`] of object files and programs: the **fragment** of a module
//!   ([`fragment`]), which the pass writes; and in link mode the **unlinked** record of a module ([`unlinked`]), of
//!   which the link step makes the **linked** record of a program ([`linked`]);
//! - the **profile of calls** ([`calls`]), which the instrumented program writes and the pass reads.
//!
//! The types are plain values. They are checked for shape here (version, syntax) and for meaning (ranges,
//! indices) by the decoder, which never trusts a file.
//!
//! [`schema`] has the types, and says how versions differ.

pub mod calls;
pub mod code;
pub mod schema;
pub mod section;
pub mod trace;
mod unpack;

pub use schema::{
    Dictionary, Edge, EdgeCode, EncodedFunction, Encoding, Epoch, Fragment, Function, Hybrid, Linked,
    Location, Module, NumberPlace, Site, SiteKind, SkipReason, Skipped, Unlinked,
};

pub use section::{fragment, linked, unlinked};
pub use unpack::{Unpacker, most_unpacked};

use thiserror::Error;

/// The schema version that this build writes.
pub const SCHEMA_VERSION: u32 = schema::VERSION;
use schema::OLDEST;

/// Errors of reading a dictionary or a record.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DictionaryError {
    /// The input has no byte in it.
    #[error("the dictionary is empty (0 bytes); write it again with `pcce dict PROGRAM -o FILE`")]
    Empty,
    /// The input is not JSON, or it is JSON of another shape, or it was cut.
    #[error("the dictionary is damaged: {0}; write it again with `pcce dict PROGRAM -o FILE`")]
    Syntax(String),
    /// The dictionary was written by another release.
    #[error(
        "the dictionary has schema version {found}, and this pcce reads versions {OLDEST} to {SCHEMA_VERSION}; use the \
         pcce of the release that wrote it, or a newer one"
    )]
    Version { found: u32 },
    /// A record of a section in an object file or program is damaged.
    #[error("section {section}, offset {offset}: {what}; build the program again")]
    Fragment {
        section: &'static str,
        /// Byte offset of the record inside the section.
        offset: usize,
        what: String,
    },
    /// An object file was made by another release of the pass.
    #[error(
        "section {section}, offset {offset}: an object file has tables of schema version {found}, and this pcce reads \
         versions {reads}; use the pcce of the release that built the program, or build all of it with this one"
    )]
    FragmentVersion {
        section: &'static str,
        /// Byte offset of the record inside the section.
        offset: usize,
        found: u32,
        /// The versions that are read.
        reads: String,
    },
}

/// Reads the JSON form of a dictionary.
///
/// # Errors
/// [`DictionaryError`]; never panics, whatever the bytes.
pub fn from_json(bytes: &[u8]) -> Result<Dictionary, DictionaryError> {
    if bytes.is_empty() {
        return Err(DictionaryError::Empty);
    }
    let syntax = |e: serde_json::Error| DictionaryError::Syntax(e.to_string());
    match version(bytes).map_err(syntax)? {
        OLDEST => {
            let newest = schema::from_version_2(bytes).map_err(syntax)?;
            serde_json::from_slice(&newest).map_err(syntax)
        }
        schema::VERSION => serde_json::from_slice(bytes).map_err(syntax),
        found => Err(DictionaryError::Version { found }),
    }
}

/// The version of a document. It is read first, so that a newer dictionary, whose other fields may have any
/// shape, is refused by its version and not as damaged.
fn version(bytes: &[u8]) -> Result<u32, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Head {
        version: u32,
    }
    // In the form that `to_json` writes, the version is found without parsing the whole document.
    const NEWEST: &[u8] = b"{\"version\":3,";
    if bytes.starts_with(NEWEST) {
        return Ok(schema::VERSION);
    }
    serde_json::from_slice(bytes).map(|head: Head| head.version)
}

/// Writes the JSON form of a dictionary.
pub fn to_json(dictionary: &Dictionary) -> Vec<u8> {
    serde_json::to_vec(dictionary).expect("strings, integers and sequences always serialise")
}
