//! The step on a file: it is replaced as a whole, or left as it is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::{Error, Summary, link};

/// Why the step failed, with the file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub cause: Cause,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It cannot be encoded.
    #[error(transparent)]
    Link(#[from] Error),
}

/// Encodes the executable or shared library at `path` in place. `asked_for`: names of options of the pass with which
/// each module must have been compiled.
///
/// # Errors
/// Why it cannot be encoded; then it is as it was.
pub fn link_file(path: &Path, asked_for: &[String]) -> Result<Summary, FileError> {
    let with_path = |cause: Cause| FileError { path: path.to_owned(), cause };
    let bytes = fs::read(path).map_err(|error| with_path(error.into()))?;
    let (bytes, summary) = link(bytes, asked_for).map_err(|error| with_path(error.into()))?;
    replace(path, &bytes).map_err(|error| with_path(error.into()))?;
    Ok(summary)
}

/// Puts a new file into the place of one, with its rights.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A link stays one.
    let path = fs::canonicalize(path)?;
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".pcce-link.{}", std::process::id()));
    let new = path.with_file_name(name);
    let write = || {
        fs::write(&new, bytes)?;
        fs::set_permissions(&new, fs::metadata(&path)?.permissions())?;
        fs::rename(&new, &path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
