//! Errors of decoding.

use thiserror::Error;

use crate::numbers::NumberError;

/// A context longer than this (in calls, repetitions not counted) is refused.
pub(crate) const MAX_PIECES: usize = 1 << 26;

/// Errors of decoding a token or number with the dictionaries given.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// None of the token's images has a dictionary.
    #[error(
        "the token is of another build: it has build id {token}, and the dictionary given has {dictionaries}; \
         give the dictionary of that build"
    )]
    OtherBuild {
        /// Build ids in the token, as far as it carries them.
        token: String,
        /// Build ids of the dictionaries, with the names of their programs.
        dictionaries: String,
    },
    /// The token was made by an image without a build id.
    #[error("the token names no build: the program has no build id; link it with -Wl,--build-id")]
    NoBuildId,
    /// No site has the address.
    #[error(
        "the token does not fit the dictionary: build {build_id} has no site at address {address:#x}; {DAMAGED}"
    )]
    NoSite { build_id: String, address: u64 },
    /// A frame of an open call, and the program has no open node with that id.
    #[error(
        "the token does not fit the dictionary: build {build_id} has no open call with id {id}; {DAMAGED}"
    )]
    NoOpenNode { build_id: String, id: u64 },
    /// The site's kind is not allowed there.
    #[error(
        "the token does not fit the dictionary: the site at address {address:#x} of build {build_id} is {found}, \
         and {expected} is expected there; {DAMAGED}"
    )]
    SiteKind { build_id: String, address: u64, found: &'static str, expected: &'static str },
    /// The function has no such id.
    #[error(
        "the token does not fit the dictionary: function {function} has no id {id}, its ids are below {num_cc}; \
         {DAMAGED}"
    )]
    NoId {
        /// Linkage name of the function.
        function: String,
        id: u64,
        num_cc: u64,
    },
    /// The frame that a function pushes at its entry lies under the sub-path of another function.
    #[error(
        "the token does not fit the dictionary: function {function} pushed at its entry, and the calls it made \
         start in {found}; {DAMAGED}"
    )]
    NotEntered {
        /// Linkage name of the function that pushed.
        function: String,
        /// Linkage name of the function in which the sub-path starts, or what else is there.
        found: String,
    },
    /// The table of the machine code cannot be used.
    #[error("the dictionary of {program}: {cause}")]
    Code { program: String, cause: String },
    /// Dictionary and token together make a context that is too long.
    #[error("the context has more than {MAX_PIECES} calls; {DAMAGED}")]
    TooLong,
    /// The number 0.
    #[error(
        "0 is no context: pcce_context() gives it where there is none (a program built without the pass)"
    )]
    NoContext,
    /// A number that one process gave to a chain of pushed frames.
    #[error(
        "number {number} is an interned one: what it stands for is in the file that PCCE_NUMBERS named for the \
         process; give it with --numbers FILE, or log pcce_token() instead"
    )]
    Interned { number: u64 },
    /// The file of numbers does not have it.
    #[error(transparent)]
    Numbers(#[from] NumberError),
    /// No function has the number.
    #[error(
        "no function of the dictionary has number {number} in its range; give the dictionary of the build that \
         printed it"
    )]
    NoRange { number: u64 },
    /// The functions of several modules have the number.
    #[error(
        "number {number} is a context of {first} and of {second}, in modules compiled apart; log pcce_token() \
         instead, or build with --pcce-mode=lto"
    )]
    Ambiguous {
        number: u64,
        /// Linkage name of one function.
        first: String,
        /// Linkage name of another function.
        second: String,
    },
}

/// The advice for a dictionary that no build writes.
const DAMAGED: &str = "write the dictionary again with `pcce dict`, and if this stays, please report it";
