//! Programs that libtool has built and that are not installed. The file with the program's name is a script, which runs
//! the program in a folder beside it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The arguments, with libtool's scripts replaced by their programs. The command line of another program (after `--`)
/// is left alone: it runs by its script.
pub fn with_programs(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut is_ours = true;
    arguments.enumerate().map(move |(number, argument)| {
        is_ours &= argument != "--";
        match program(&argument).filter(|_| is_ours && number > 0) {
            Some(program) => program.into(),
            None => argument,
        }
    })
}

/// The program that a script of libtool runs.
fn program(script: &OsStr) -> Option<PathBuf> {
    let script = Path::new(script);
    let mut start = Vec::new();
    if !fs::metadata(script).is_ok_and(|data| data.is_file()) {
        return None;
    }
    File::open(script).ok()?.take(1024).read_to_end(&mut start).ok()?;
    let start = str::from_utf8(start.strip_prefix(b"#!")?).ok()?;
    let (_, rest) = start.split_once(" - temporary wrapper script for ")?;
    let name = Path::new(rest.lines().next()?);
    let program = script.parent()?.join(name);
    // The script makes and prefers the relinked program if the libraries will be installed somewhere else.
    let mut relinked = OsString::from("lt-");
    relinked.push(program.file_name()?);
    [program.with_file_name(relinked), program].into_iter().find(|program| program.is_file())
}
