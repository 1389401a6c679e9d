//! Separate debug files: where `objcopy --only-keep-debug` has put what was stripped from a program.

use std::path::{Path, PathBuf};

use object::Object;
use pcce_dictionary::section::SECTION;

/// Where distributions keep debug files.
const SYSTEM: &str = "/usr/lib/debug";

/// The debug file of a stripped program with its dictionary, found as gdb finds it: by build id, then by the name in
/// `.gnu_debuglink`. It has the program's build id.
#[must_use]
pub fn find(program: &Path, bytes: &[u8]) -> Option<PathBuf> {
    let file = object::File::parse(bytes).ok()?;
    let id = file.build_id().ok().flatten().filter(|id| id.len() > 1)?;
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
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
    candidates.into_iter().find(|path| {
        path != program
            && std::fs::read(path).is_ok_and(|bytes| {
                object::File::parse(&*bytes).is_ok_and(|debug| {
                    debug.build_id() == Ok(Some(id)) && debug.section_by_name(SECTION).is_some()
                })
            })
    })
}
