//! Separate debug files, into which `objcopy --only-keep-debug` puts the sections that are stripped from a program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::Object;
use pcce_dictionary::section::SECTION;

use crate::token::to_hex;

/// The folder in which distributions keep debug files.
pub(crate) const SYSTEM: &str = "/usr/lib/debug";

/// The debug file of a stripped program with its dictionary, found as gdb finds it: by build id, by the name
/// in `.gnu_debuglink`, then by debuginfod. It has the program's build id.
pub fn find(program: &Path, bytes: &[u8]) -> Option<PathBuf> {
    find_section(program, bytes, SECTION)
}

/// As [`find`], for a debug file with this section.
pub(crate) fn find_section(program: &Path, bytes: &[u8], section: &str) -> Option<PathBuf> {
    let file = object::File::parse(bytes).ok()?;
    let id = file.build_id().ok().flatten().filter(|id| id.len() > 1)?;
    let digits = to_hex(id);
    let by_id = format!("{SYSTEM}/.build-id/{}/{}.debug", &digits[..2], &digits[2..]);
    let mut candidates = vec![PathBuf::from(by_id)];
    if let Ok(Some((name, _))) = file.gnu_debuglink() {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(name);
        let program = std::fs::canonicalize(program).ok()?;
        let folder = program.parent()?;
        candidates.extend([folder.join(name), folder.join(".debug").join(name)]);
        candidates.push(Path::new(SYSTEM).join(folder.strip_prefix("/").ok()?).join(name));
    }
    let is_it = |path: &PathBuf| {
        path != program
            && std::fs::read(path).is_ok_and(|bytes| {
                object::File::parse(&*bytes).is_ok_and(|debug| {
                    debug.build_id() == Ok(Some(id)) && debug.section_by_name(section).is_some()
                })
            })
    };
    candidates.into_iter().find(is_it).or_else(|| ask_debuginfod(&digits).filter(is_it))
}

pub(crate) fn debuginfod() -> bool {
    std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty())
}

/// The debug file of this whole build id, from the servers that `DEBUGINFOD_URLS` names. elfutils' client caches
/// files, and the ids of files that no server has.
pub fn ask_debuginfod(build_id: &str) -> Option<PathBuf> {
    if !debuginfod() {
        return None;
    }
    let found =
        Command::new("debuginfod-find").args(["debuginfo", build_id]).stdin(Stdio::null()).output().ok()?;
    let path = PathBuf::from(String::from_utf8(found.stdout).ok()?.trim_end());
    (found.status.success() && path.is_file()).then_some(path)
}
