//! The objects that a linker makes of bitcode. The linker leaves copies of them in a folder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// The linker's option for the folder.
#[must_use]
pub fn into(folder: &Path) -> OsString {
    [OsStr::new("--lto-obj-path="), folder.join("object").as_os_str()].into_iter().collect()
}

/// The objects in the folder. Files are empty for kinds of bitcode that the link does not have, and for
/// objects from the linker's own cache; these are left out.
///
/// # Errors
/// The folder cannot be read.
pub fn objects(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file(folder))? {
        let entry = entry.map_err(Error::file(folder))?;
        if entry.metadata().is_ok_and(|data| data.len() > 0) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}
