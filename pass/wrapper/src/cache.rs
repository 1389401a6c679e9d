//! ThinLTO's cache (`--thinlto-cache-dir`): which objects of earlier links a link may take over.
//!
//! lld takes an object for the module's own if nothing differs that it knows to matter: the modules, and its own
//! options with those of `-mllvm`. Not the pass plugin, and not what the pass was asked for. So a link says that in an
//! option of LLVM's that does nothing else.

use std::collections::hash_map::DefaultHasher;
use std::ffi::{OsStr, OsString};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// An option of both LLVMs that holds any text: what names of pictures begin with that some passes for debugging draw.
/// A link runs none of them.
const OPTION: &str = "-Wl,-mllvm,-cfg-dot-filename-prefix=pcce.";

/// The word for a link that tells the plugin, the options of the pass and the content of all files from any other.
/// `files`: those that the options name. `read_file`: None for a file that cannot be read, which is for the pass to
/// report.
pub fn key(
    plugin: &Path,
    options: &OsStr,
    files: &[PathBuf],
    read_file: impl Fn(&Path) -> Option<Vec<u8>>,
) -> OsString {
    let mut hasher = DefaultHasher::new();
    read_file(plugin).hash(&mut hasher);
    options.hash(&mut hasher);
    for file in files {
        read_file(file).hash(&mut hasher);
    }
    format!("{OPTION}{:016x}", hasher.finish()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_tells_all_apart_that_the_pass_reads() {
        let key_with = |options: &str, changed: &str| {
            let read =
                |path: &Path| Some(if path == Path::new(changed) { b"new".into() } else { b"old".into() });
            key(Path::new("/plugin"), OsStr::new(options), &["/a".into(), "/b".into()], read)
        };
        let old = key_with("verify", "");
        assert_eq!(old, key_with("verify", "/c"));
        for changed in ["/plugin", "/a", "/b"] {
            assert_ne!(old, key_with("verify", changed), "{changed}");
        }
        assert_ne!(old, key_with("", ""));
        assert_ne!(old, key(Path::new("/plugin"), OsStr::new("verify"), &[], |_| None));
    }
}
