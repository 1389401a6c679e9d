//! ThinLTO's cache (`--thinlto-cache-dir`): which objects of earlier links a link may reuse.
//!
//! lld reuses an object if the inputs that it knows are the same: the modules, and its own options with those
//! of `-mllvm`. It does not know the pass plugin and its options. So a link passes these as the value of an
//! option of LLVM that has no other effect.

use std::collections::hash_map::DefaultHasher;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// An option of both LLVMs with any text as its value: the prefix of names of pictures that some debugging
/// passes draw. A link does not run these passes.
const OPTION: &str = "-cfg-dot-filename-prefix=pcce.";

/// An option of LLVM that identifies the plugin, the options of the pass, the content of their files, and the
/// decisions of the link step. `files` are those that the options name. The pass reports files that cannot be
/// read.
pub fn key(plugin: &Path, options: &OsStr, files: &[PathBuf], decided: &str) -> OsString {
    key_with(plugin, options, files, decided, |file| fs::read(file).ok())
}

fn key_with(
    plugin: &Path,
    options: &OsStr,
    files: &[PathBuf],
    decided: &str,
    read_file: impl Fn(&Path) -> Option<Vec<u8>>,
) -> OsString {
    let mut hasher = DefaultHasher::new();
    read_file(plugin).hash(&mut hasher);
    options.hash(&mut hasher);
    for file in files {
        read_file(file).hash(&mut hasher);
    }
    decided.hash(&mut hasher);
    format!("{OPTION}{:016x}", hasher.finish()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_tells_all_apart_that_the_pass_reads() {
        let key = |options: &str, decided: &str, changed: &str| {
            let read =
                |path: &Path| Some(if path == Path::new(changed) { b"new".into() } else { b"old".into() });
            let files = ["/a".into(), "/b".into()];
            key_with(Path::new("/plugin"), OsStr::new(options), &files, decided, read)
        };
        let old = key("verify", "", "");
        assert_eq!(old, key("verify", "", "/c"));
        for changed in ["/plugin", "/a", "/b"] {
            assert_ne!(old, key("verify", "", changed), "{changed}");
        }
        assert_ne!(old, key("", "", ""));
        assert_ne!(old, key("verify", "1", ""));
        assert_ne!(old, key_with(Path::new("/plugin"), OsStr::new("verify"), &[], "", |_| None));
    }
}
