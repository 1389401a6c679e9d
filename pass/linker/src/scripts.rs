//! Linker scripts that are named as inputs.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Whether a linker takes a file for a script: it is a text.
pub fn is_script(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
    read.is_ok_and(|length| length > 0)
        && ![&b"!<"[..], b"\x7fELF", b"BC\xc0\xde"].iter().any(|magic| start.starts_with(magic))
        && !start.contains(&0)
}
