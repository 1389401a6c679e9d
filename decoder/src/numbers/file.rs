//! The file of numbers: its head, and its records one by one.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use pcce_abi::numbers::{END, GIVEN, HEAD, MAGIC, RECORD, Record, VERSION, head, offset};

use super::error::{NumberError, NumbersError};
use super::no_record;
use crate::source::Source;

/// The number of records that are read at a time, and kept.
const PIECE: u64 = 1 << 16;

type Piece = Result<Box<[u8]>, String>;

/// A file of numbers. Of a large file, only those pieces are read in which records are looked up. Records are written
/// once, so the pieces stay valid. Records that a running program adds are read one by one.
#[derive(Debug)]
pub struct NumbersFile {
    content: Source,
    /// The size when the file was opened.
    size: u64,
    /// The count when the file was opened.
    given: u64,
    pieces: Vec<OnceLock<Piece>>,
}

impl NumbersFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`NumbersError`] if it cannot be read, or is no file of numbers.
    pub fn open(path: &Path) -> Result<Self, NumbersError> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Self::new(Source::File(file), size)
    }

    /// Takes the content of a file.
    ///
    /// # Errors
    /// [`NumbersError`] if it is no file of numbers.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, NumbersError> {
        let size = bytes.len() as u64;
        Self::new(Source::Memory(bytes), size)
    }

    fn new(content: Source, size: u64) -> Result<Self, NumbersError> {
        let mut bytes = [0; HEAD as usize];
        let read = content.read(&mut bytes, 0)?;
        let known = head();
        if bytes[..MAGIC.len()] != MAGIC {
            let start: Vec<_> = bytes[..read.min(8)].iter().map(|byte| format!("{byte:02x}")).collect();
            let start = if start.is_empty() { "(none)".to_owned() } else { start.join(" ") };
            return Err(NumbersError::NotNumbers { start });
        }
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        if read < bytes.len() {
            return Err(NumbersError::Truncated { size });
        }
        if bytes[..known.len()] != known {
            let found = word(MAGIC.len()) as u32;
            return Err(match found {
                VERSION => NumbersError::Head { position: 12, found: bytes[12] },
                found => NumbersError::OtherVersion { found },
            });
        }
        let given = GIVEN as usize..GIVEN as usize + 8;
        let rest = bytes.iter().enumerate().skip(known.len());
        let other = rest.filter(|(at, _)| !given.contains(at)).find(|(_, byte)| **byte != 0);
        if let Some((position, &found)) = other {
            return Err(NumbersError::Head { position, found });
        }
        let given = word(GIVEN as usize);
        // A process that runs out of numbers continues to count.
        if given >= 2 * END {
            return Err(NumbersError::Given { given });
        }
        // `given` may count records after the end of the file: looking them up is an error.
        let pieces = (size - HEAD).div_ceil(RECORD * PIECE) as usize;
        Ok(Self { content, size, given, pieces: (0..pieces).map(|_| OnceLock::new()).collect() })
    }

    /// The count of numbers that were given by all processes that had used the file when it was opened.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The record from the pieces, each of which is read once.
    fn kept(&self, record: u64) -> Result<Record, NumberError> {
        if record == 0 || record > self.given {
            return Err(NumberError::NotGiven { record, given: self.given });
        }
        let index = record - 1;
        let cut_off = NumberError::CutOff { record, size: self.size };
        let piece = match self.piece(index / PIECE) {
            None => return Err(cut_off),
            Some(Err(cause)) => return Err(NumberError::Unreadable { record, cause: cause.clone() }),
            Some(Ok(piece)) => piece,
        };
        let at = (index % PIECE * RECORD) as usize;
        parse(record, piece.get(at..at + RECORD as usize).ok_or(cut_off)?)
    }

    /// The record as it is in the file now.
    fn now(&self, record: u64) -> Result<Record, NumberError> {
        let unreadable = |error: io::Error| NumberError::Unreadable { record, cause: error.to_string() };
        let mut word = [0; 8];
        self.content.read(&mut word, GIVEN).map_err(unreadable)?;
        let given = u64::from_le_bytes(word);
        if record == 0 || record > given {
            return Err(NumberError::NotGiven { record, given });
        }
        let mut bytes = [0; RECORD as usize];
        if self.content.read(&mut bytes, offset(record)).map_err(unreadable)? < bytes.len() {
            return Err(NumberError::CutOff { record, size: self.content.len().map_err(unreadable)? });
        }
        parse(record, &bytes)
    }

    fn piece(&self, index: u64) -> Option<&Piece> {
        let piece = self.pieces.get(usize::try_from(index).ok()?)?;
        Some(piece.get_or_init(|| {
            let at = offset(1 + index * PIECE);
            let mut bytes = vec![0; (RECORD * PIECE).min(self.size - at) as usize];
            let read = self.content.read(&mut bytes, at).map_err(|error| error.to_string())?;
            bytes.truncate(read);
            Ok(bytes.into())
        }))
    }
}

impl super::Source for NumbersFile {
    fn record(&self, record: u64) -> Result<Record, NumberError> {
        self.kept(record).or_else(|_| self.now(record))
    }
}

fn parse(record: u64, bytes: &[u8]) -> Result<Record, NumberError> {
    let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("8 bytes"));
    Record::read(record, [word(0), word(1), word(2)]).map_err(|why| no_record(record, why))
}
