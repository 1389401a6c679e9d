//! Errors of texts that are refused as tokens.

use thiserror::Error;

use super::MAX_FRAMES;

/// Errors of reading a token.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The text does not start like a token.
    #[error(
        "not a context token: it starts with `{start}`; a token starts with `pcce1.`, `pcce2.` or `pcce3.` and \
         is one word of letters, digits, `-` and `_`"
    )]
    NotAToken {
        /// The first characters.
        start: String,
    },
    /// A token of a version that a newer release writes.
    #[error(
        "the token has version {found}, and this pcce reads versions 1 to 3; use the pcce of the release that \
         built the program, or a newer one"
    )]
    NewerVersion { found: String },
    /// The text ends before the token does.
    #[error("the token is truncated: it ends after {length} characters, in the middle; copy it whole")]
    Truncated {
        /// Length of the text in characters.
        length: usize,
    },
    /// A character that no token contains.
    #[error(
        "the token was altered: character {position} is {found:?}, which no token contains; copy it again"
    )]
    Character {
        /// Position of the character, from 1.
        position: usize,
        found: char,
    },
    /// The checksum does not match.
    #[error(
        "the token is truncated, or altered: its {length} characters do not end in their checksum; copy it whole"
    )]
    Checksum {
        /// Length of the text in characters.
        length: usize,
    },
    /// The checksum matches, but the numbers make no token: the program that wrote it has an error.
    #[error(
        "the token is malformed although its checksum matches: byte {position}, {what}; this is an error in what \
         wrote it, please report it"
    )]
    Malformed {
        /// Position in the payload, in bytes from 0.
        position: usize,
        /// The error at this position.
        what: &'static str,
    },
    /// More frames than a stack can hold.
    #[error(
        "the token claims {frames} pushed frames, and the limit is {MAX_FRAMES}; this is an error in what wrote \
         it, please report it"
    )]
    TooManyFrames {
        /// Number of frames up to the one that passed the limit.
        frames: u64,
    },
}
