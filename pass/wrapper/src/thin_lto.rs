//! ThinLTO's cache (`--thinlto-cache-dir`): which objects of earlier links a link may take over.
//!
//! lld takes an object for the module's own if nothing differs that it knows to matter: the modules, and its own
//! options with those of `-mllvm`. Not the pass plugin, and not what the pass was asked for. So a link says that in an
//! option of LLVM's that does nothing else.

use std::collections::hash_map::DefaultHasher;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// An option of both LLVMs that holds any text: what names of pictures begin with that some passes for debugging draw.
/// A link runs none of them.
const OPTION: &str = "-cfg-dot-filename-prefix=pcce.";

/// LLVM's option for a link that tells the plugin, the options of the pass, the content of all files and what was
/// decided from any other. `files`: those that the options name; that one cannot be read is for the pass to report.
pub fn key(plugin: &Path, options: &OsStr, files: &[PathBuf], decided: &str) -> OsString {
    key_with((plugin, options, files, decided), |file| fs::read(file).ok())
}

fn key_with(
    (plugin, options, files, decided): (&Path, &OsStr, &[PathBuf], &str),
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
            key_with((Path::new("/plugin"), OsStr::new(options), &files, decided), read)
        };
        let old = key("verify", "", "");
        assert_eq!(old, key("verify", "", "/c"));
        for changed in ["/plugin", "/a", "/b"] {
            assert_ne!(old, key("verify", "", changed), "{changed}");
        }
        assert_ne!(old, key("", "", ""));
        assert_ne!(old, key("verify", "1", ""));
        assert_ne!(old, key_with((Path::new("/plugin"), OsStr::new("verify"), &[], ""), |_| None));
    }
}
