//! The step on a file: it is replaced as a whole, or left as it is.

use std::io::Write;
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
    // Others may write to the folder: a name that nobody can guess, of a file that there was not.
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::Builder::new().prefix(".pcce-link-").tempfile_in(folder)?;
    new.write_all(bytes)?;
    new.as_file().set_permissions(fs::metadata(&path)?.permissions())?;
    new.persist(&path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("program"), "old").unwrap();
        fs::write(path("others"), "theirs").unwrap();
        // The name that earlier releases took.
        let guessed = path(&format!(".program.pcce-link.{}", std::process::id()));
        std::os::unix::fs::symlink(path("others"), &guessed).unwrap();
        std::os::unix::fs::symlink(path("program"), path("link")).unwrap();
        let mut rights = fs::metadata(path("program")).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o751);
        fs::set_permissions(path("program"), rights).unwrap();
        let rights = fs::metadata(path("program")).unwrap().permissions();
        replace(&path("link"), b"new").unwrap();
        assert_eq!(fs::read(path("program")).unwrap(), b"new");
        assert_eq!(fs::metadata(path("program")).unwrap().permissions(), rights);
        assert_eq!(fs::read(path("others")).unwrap(), b"theirs");
        assert!(fs::symlink_metadata(path("link")).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    }
}
