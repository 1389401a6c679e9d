//! Interned numbers, from the file that a program wrote with `PCCE_NUMBERS` (docs/formats.md): from a number to the
//! parts of the token for which it stands.
//!
//! Each record has a checksum. A number is decoded if all records of its chain exist and are consistent, whatever the
//! rest of the file looks like.

mod chain;
mod error;
mod file;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use pcce_abi::numbers::{Entry, NoRecord, Record};

use crate::token::{BuildId, Token};

pub use error::{NumberError, NumbersError};
pub use file::NumbersFile;
pub use pcce_abi::numbers::HEAD;

/// A source of records.
pub(crate) trait Source: fmt::Debug + Send + Sync {
    fn record(&self, number: u64) -> Result<Record, NumberError>;
}

/// The interned numbers of some processes.
#[derive(Clone, Debug)]
pub struct Numbers {
    source: Arc<dyn Source>,
}

/// The context for which a number stands.
#[derive(Debug)]
pub(crate) struct Numbered {
    /// The chain, and the capture if the number names no function.
    pub(crate) token: Token,
    /// The number in the range of a function, if the number names one.
    pub(crate) range: Option<u64>,
    pub(crate) program: BuildId,
}

impl Numbers {
    pub(crate) fn new(source: impl Source + 'static) -> Self {
        Self { source: Arc::new(source) }
    }

    /// The context for which a number of `pcce_context()` from 2⁶³ on stands.
    pub(crate) fn read(&self, number: u64) -> Result<Numbered, NumberError> {
        chain::read(&*self.source, number)
    }

    /// The images whose dictionaries a number needs, the program of its process among them; none if it cannot
    /// be read.
    pub(crate) fn images(&self, number: u64) -> Vec<BuildId> {
        self.read(number).map_or(Vec::new(), |found| {
            let mut images = found.token.images;
            images.push(found.program);
            images
        })
    }

    /// The token parts for which the record of a chain stands.
    pub(crate) fn chain(&self, record: u64) -> Result<Token, NumberError> {
        Ok(chain::read_from(&*self.source, record, None, true)?.token)
    }

    /// The image and address of the record of a place.
    pub(crate) fn place(&self, record: u64) -> Option<(BuildId, u64)> {
        match self.source.record(record).ok()?.entry {
            Entry::Place { build_id, len, address } => {
                Some((BuildId::from_prefix(build_id.get(..usize::from(len))?), address))
            }
            _ => None,
        }
    }
}

impl From<NumbersFile> for Numbers {
    fn from(file: NumbersFile) -> Self {
        Self::new(file)
    }
}

/// The error for a record that cannot be used.
fn no_record(record: u64, why: NoRecord) -> NumberError {
    match why {
        NoRecord::Empty => NumberError::Missing { record },
        NoRecord::Damaged => NumberError::Damaged { record },
        NoRecord::Malformed => NumberError::Malformed { record, what: "it is of no kind that there is" },
    }
}
