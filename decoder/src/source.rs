//! Bytes, in a file or in memory, that can be read from any offset on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

#[derive(Debug)]
pub enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    /// The number of bytes.
    pub fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Reads all bytes of a file into memory, as they are now. None if they are in memory already, or are more than
    /// `most`.
    pub fn at_once(&self, most: u64) -> io::Result<Option<Self>> {
        if matches!(self, Self::Memory(_)) {
            return Ok(None);
        }
        let len = self.len()?;
        let mut bytes = Vec::new();
        if len > most || bytes.try_reserve_exact(len as usize).is_err() {
            return Ok(None);
        }
        bytes.resize(len as usize, 0);
        let read = self.read(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(Some(Self::Memory(bytes)))
    }

    /// Fills the buffer from offset `at` on, as far as there are bytes. Returns how many there were.
    pub fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::Memory(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let len = rest.len().min(buffer.len());
                buffer[..len].copy_from_slice(&rest[..len]);
                Ok(len)
            }
            Self::File(file) => {
                let mut read = 0;
                while read < buffer.len() {
                    match file.read_at(&mut buffer[read..], at + read as u64) {
                        Ok(0) => break,
                        Ok(more) => read += more,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(read)
            }
        }
    }
}
