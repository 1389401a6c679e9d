//! Dictionaries from files, in either form: the JSON document, or the program itself.

pub mod debug_files;
pub mod interface;
pub(crate) mod libraries;
pub mod program;

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use pcce_dictionary::{Dictionary, DictionaryError};
use thiserror::Error;

use self::program::ProgramError;
use crate::code::elf::ELF_MAGIC;

/// An error of reading a dictionary from a file.
#[derive(Debug, Error)]
#[error("{}: {cause}", .path.display())]
pub struct LoadError {
    pub path: PathBuf,
    pub cause: LoadCause,
}

/// Causes of a [`LoadError`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadCause {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(io::Error),
    /// The file has no byte in it.
    #[error("the file is empty (0 bytes); write the dictionary again with `pcce dict PROGRAM -o FILE`")]
    Empty,
    /// The file has neither form.
    #[error(
        "neither a dictionary (JSON) nor a program (ELF): it starts with bytes {start}; write the dictionary \
         again with `pcce dict PROGRAM -o FILE`"
    )]
    Unknown {
        /// The first bytes, in hexadecimal digits.
        start: String,
    },
    /// A JSON dictionary that was refused.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
    /// A program that was refused.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// The content of a file.
///
/// # Errors
/// Errors of reading it, and one if it is a device, which may have no end.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(io::Error::other("it is a device, and no file"));
    }
    fs::read(path)
}

/// Reads a dictionary from the JSON document or the program at `path`.
///
/// # Errors
/// [`LoadError`], with the path.
pub fn load(path: &Path) -> Result<Dictionary, LoadError> {
    let with_path = |cause| LoadError { path: path.to_owned(), cause };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    match read_file(path) {
        Ok(bytes) => from_bytes(&bytes, &name).map_err(with_path),
        Err(error) => Err(with_path(LoadCause::Io(error))),
    }
}

/// Reads a dictionary from the content of a file. `name` is the file's name, for messages.
///
/// # Errors
/// [`LoadCause`]; never panics, whatever the bytes.
pub fn from_bytes(bytes: &[u8], name: &str) -> Result<Dictionary, LoadCause> {
    if bytes.is_empty() {
        Err(LoadCause::Empty)
    } else if bytes.starts_with(&ELF_MAGIC) {
        Ok(program::dictionary(bytes, name)?)
    } else if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        Ok(pcce_dictionary::from_json(bytes)?)
    } else {
        let start: Vec<_> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Err(LoadCause::Unknown { start: start.join(" ") })
    }
}
