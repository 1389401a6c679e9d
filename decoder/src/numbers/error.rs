//! Errors of files of numbers, and of numbers.

use std::io;

use pcce_abi::numbers::{HEAD, VERSION};
use thiserror::Error;

/// Errors of opening a file of numbers.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NumbersError {
    #[error("cannot be read: {0}")]
    Io(io::Error),
    #[error(
        "no file of numbers: it starts with bytes {start}; give the one that PCCE_NUMBERS named for the program"
    )]
    NotNumbers {
        /// The first bytes, in hexadecimal digits.
        start: String,
    },
    /// A version that another release writes.
    #[error(
        "the file has version {found}, and this pcce reads version {VERSION}; use the pcce of the release that built \
         the program"
    )]
    OtherVersion { found: u32 },
    /// The head is not whole.
    #[error("the file is truncated: it has {size} bytes, and its head alone has {HEAD}; copy it whole")]
    Truncated {
        /// Its size in bytes.
        size: u64,
    },
    /// A byte of the head has a wrong value.
    #[error("the file is damaged: byte {position} of its head is {found:#04x}, and should be 0")]
    Head {
        /// Position from 0.
        position: usize,
        found: u8,
    },
    #[error("the file is damaged: it says that {given} numbers were given, which are more than there can be")]
    Given { given: u64 },
}

// Not by `#[from]`, which would make the cause a source, too: a chain of errors would then show it two times.
impl From<io::Error> for NumbersError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// Errors of decoding a number with a file of numbers.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberError {
    /// No process gives such a number.
    #[error("number {number} is none that pcce_context() gives")]
    NoNumber { number: u64 },
    /// The file's processes have not given the number.
    #[error(
        "the file of numbers has no record {record}: {given} were given in it; the number is of a process with \
         another file"
    )]
    NotGiven {
        /// The record that is needed.
        record: u64,
        /// The count of numbers that were given.
        given: u64,
    },
    /// The number was given, but its record was not written.
    #[error(
        "record {record} of the file of numbers was not written: the process was killed at that moment, the disk \
         was full, or the number is of a process with another file"
    )]
    Missing {
        /// The record that is needed.
        record: u64,
    },
    /// The core file does not have the number.
    #[error("the core file has no number {record}: another process has given it, or it was not given yet")]
    NotInCore {
        /// The record that is needed.
        record: u64,
    },
    #[error(
        "the file of numbers is truncated: it has {size} bytes, and record {record} is behind them; copy it whole"
    )]
    CutOff {
        /// The record that is needed.
        record: u64,
        /// The file's size in bytes.
        size: u64,
    },
    /// The record's checksum does not match.
    #[error("record {record} of the file of numbers is damaged: its content does not fit its check")]
    Damaged { record: u64 },
    /// The records' checksums match, but the records make no chain.
    #[error(
        "record {record} of the file of numbers is malformed although its check fits: {what}; the number is of a \
         process with another file, or what wrote it has an error"
    )]
    Malformed { record: u64, what: &'static str },
    /// The file cannot be read any more.
    #[error("record {record} of the file of numbers cannot be read: {cause}")]
    Unreadable { record: u64, cause: String },
}
