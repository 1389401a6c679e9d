//! Errors of dictionaries that could be read.

use pcce_encoding::decode::TableError;
use thiserror::Error;

use crate::token::BuildId;

/// An error in a dictionary that could be read.
#[derive(Debug, Error)]
#[error("the dictionary of {program}{}: {cause}{}", in_module(.module), cure(.cause))]
pub struct InvalidDictionary {
    pub program: String,
    /// Name of the module, if it is about one.
    pub module: Option<String>,
    pub cause: Cause,
}

fn in_module(module: &Option<String>) -> String {
    module.as_ref().map_or_else(String::new, |name| format!(", module {name}"))
}

fn cure(cause: &Cause) -> &'static str {
    match cause {
        Cause::SameBuildId(_) | Cause::TooLarge(_) => "; give fewer of them",
        _ => "; write it again with `pcce dict PROGRAM -o FILE`",
    }
}

/// Causes of an [`InvalidDictionary`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The build id is not an even number of lower-case hexadecimal digits.
    #[error("its build id is {0:?}, which is no row of bytes in lower-case hexadecimal digits")]
    BuildId(String),
    /// Tokens could not distinguish two dictionaries.
    #[error("another one given has the same build id {0}, as far as tokens carry it")]
    SameBuildId(BuildId),
    /// An index into another table is out of range.
    #[error("{what} {at} names {target} {index}, and there are {len}")]
    Index {
        /// Kind of the row with the index.
        what: &'static str,
        /// Number of the row with the index.
        at: usize,
        /// Kind of the row that is named.
        target: &'static str,
        index: u32,
        len: usize,
    },
    /// The addresses of a module's sites are outside the address space, or overlap those of another module.
    #[error(
        "its site array at {address:#x} with {sites} sites overlaps another one, or the end of the address space"
    )]
    SiteArray { address: u64, sites: usize },
    /// A module has no encoding.
    #[error("it has no encoding")]
    NotEncoded,
    /// A module with two encodings.
    #[error("it has two encodings")]
    DuplicateEncoding,
    /// An encoding of other modules than there are, or of none.
    #[error("encoding {encoding} is of {count} modules from number {first} on, and there are {modules}")]
    Modules {
        encoding: usize,
        first: u32,
        /// The number of modules that it claims to have.
        count: u32,
        /// The number that there are.
        modules: usize,
    },
    /// An encoding does not have one row for each function.
    #[error("its encoding has {rows} functions, and there are {functions}")]
    Functions { rows: usize, functions: usize },
    /// An edge at a site that cannot have it: one that adds belongs to a direct call, an open one to a module
    /// with an open node.
    #[error("edge {edge} is at site {site}, which is no call of that kind")]
    EdgeSite { edge: usize, site: u32 },
    /// An edge with a callee at a site whose kind determines the callee.
    #[error("edge {edge} names a callee, and site {site} calls no name")]
    Callee { edge: usize, site: u32 },
    /// Two edges at one site.
    #[error("edge {edge} is at site {site}, which has another edge already")]
    SecondEdge { edge: usize, site: u32 },
    /// Two encodings of an image have an open node.
    #[error("another module has an open node, too")]
    SecondOpenNode,
    /// Two numbers of bytes for one function or edge.
    #[error("its hybrid encoding has {what} {index} twice")]
    Duplicate { what: &'static str, index: u32 },
    /// The edges and ids are not an encoding.
    #[error("{0}")]
    Encoding(TableError),
    /// A place at which numbers are taken names another site.
    #[error("place {place} of numbers is at site {site}, which takes no context")]
    NoCapture { place: usize, site: u32 },
    /// The numbers of a function leave the range of numbers without a process.
    #[error(
        "the numbers of function {function} start at {base} and are {num_cc}, and 1 to 2^63 - 1 are allowed"
    )]
    Range {
        /// Linkage name of the function.
        function: String,
        base: u64,
        /// The number that there are.
        num_cc: u64,
    },
    /// More rows than 32-bit numbers can name.
    #[error("all dictionaries together have more than 4294967294 {0}")]
    TooLarge(&'static str),
}

/// Checks an index into another table.
pub(crate) fn check(
    what: &'static str,
    at: usize,
    target: &'static str,
    index: u32,
    len: usize,
) -> Result<(), Cause> {
    if (index as usize) < len { Ok(()) } else { Err(Cause::Index { what, at, target, index, len }) }
}

/// A number of rows, or the number of the next row, as an index.
pub(crate) fn index(len: usize, what: &'static str) -> Result<u32, Cause> {
    u32::try_from(len).ok().filter(|index| *index < u32::MAX).ok_or(Cause::TooLarge(what))
}
