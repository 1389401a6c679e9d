//! Where clang and the parts of this project are on this machine.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::Error;

/// The LLVM that the plugin is built for: another version refuses to load it.
pub const LLVM_VERSION: &str = if cfg!(feature = "llvm22") { "22" } else { "19" };
/// Where the distribution keeps that LLVM's programs.
pub const LLVM_BIN: &str =
    if cfg!(feature = "llvm22") { "/usr/lib/llvm-22/bin" } else { "/usr/lib/llvm-19/bin" };

/// The header's folder, and how much the compiler may prefer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header {
    /// A folder with nothing else in it, in the repository.
    Own(PathBuf),
    /// An installation's `include`, which other packages may share: looked into
    /// after all other folders, since its order among the system's matters
    /// (`#include_next` in libstdc++).
    Shared(PathBuf),
}

/// The project's own files that a compilation needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The folder with the plugin and both runtime libraries.
    pub libraries: PathBuf,
    /// The folder with `pcce.h`, if there is one.
    pub header: Option<Header>,
}

impl Files {
    /// Finds the files from the wrapper's own executable (its symbolic links
    /// resolved): beside it, as the build leaves them, or in `../lib/pcce` and
    /// `../include`, as they are installed.
    pub fn beside(executable: &Path, exists: impl Fn(&Path) -> bool) -> Self {
        let here = executable.parent().unwrap_or(Path::new("/"));
        let prefix = here.parent().unwrap_or(Path::new("/"));
        let installed = prefix.join("lib/pcce");
        let beside = exists(&here.join(PLUGIN)) || !exists(&installed.join(PLUGIN));
        let libraries = if beside { here.to_owned() } else { installed };

        let with_header = |folder: &PathBuf| exists(&folder.join("pcce.h"));
        let built = Some(here.join("include"));
        let header = match built.filter(|_| beside).filter(with_header) {
            Some(folder) => Some(Header::Own(folder)),
            None => Some(prefix.join("include")).filter(with_header).map(Header::Shared),
        };
        Files { libraries, header }
    }

    /// The pass plugin.
    pub fn plugin(&self) -> PathBuf {
        self.libraries.join(PLUGIN)
    }

    /// The runtime for executables.
    pub fn archive(&self) -> PathBuf {
        self.libraries.join("libpcce_rt.a")
    }

    /// The runtime for executables that compare their contexts, or count their calls.
    pub fn verify_archive(&self) -> PathBuf {
        self.libraries.join("libpcce_verify.a")
    }

    /// The runtime for executables that record their allocations.
    pub fn heap_archive(&self) -> PathBuf {
        self.libraries.join("libpcce_heap.a")
    }

    /// The runtime for shared libraries.
    pub fn shared_runtime(&self) -> PathBuf {
        self.libraries.join(SHARED_RUNTIME)
    }
}

const PLUGIN: &str = "libpcce_pass.so";
/// File name and soname of the runtime for shared libraries.
pub const SHARED_RUNTIME: &str = "libpcce_rt.so";

/// Finds `clang` or `clang++` of the right version: by its versioned name in
/// `path`, then where the distribution keeps it.
///
/// # Errors
///
/// [`Error::NoCompiler`] if it is in none of them.
pub fn find_compiler(name: &str, path: Option<&OsStr>) -> Result<PathBuf, Error> {
    let versioned = format!("{name}-{LLVM_VERSION}");
    find_in(path, &versioned)
        .or_else(|| Some(Path::new(LLVM_BIN).join(name)).filter(|file| is_executable(file)))
        .ok_or(Error::NoCompiler { name: versioned })
}

/// Whether `-fuse-ld=lld` will find a linker: clang looks beside itself, then in
/// `path`.
pub fn has_lld(compiler: &Path, path: Option<&OsStr>) -> bool {
    let own = fs::canonicalize(compiler).ok();
    let beside = own.as_deref().and_then(Path::parent).unwrap_or(Path::new(LLVM_BIN));
    // A compiler cache may stand in the compiler's place, so its own folder
    // alone does not settle it.
    [beside, Path::new(LLVM_BIN)].iter().any(|folder| is_executable(&folder.join("ld.lld")))
        || find_in(path, "ld.lld").is_some()
}

fn find_in(path: Option<&OsStr>, name: &str) -> Option<PathBuf> {
    env::split_paths(path?)
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(executable: &str, present: &[&str]) -> Files {
        Files::beside(Path::new(executable), |path| present.iter().any(|p| Path::new(p) == path))
    }

    #[test]
    fn the_build_tree_is_used_where_it_is() {
        let files = beside(
            "/repo/target/release/pcce-clang",
            &["/repo/target/release/libpcce_pass.so", "/repo/target/release/include/pcce.h"],
        );
        assert_eq!(files.plugin(), Path::new("/repo/target/release/libpcce_pass.so"));
        assert_eq!(files.archive(), Path::new("/repo/target/release/libpcce_rt.a"));
        assert_eq!(files.shared_runtime(), Path::new("/repo/target/release/libpcce_rt.so"));
        assert_eq!(files.header, Some(Header::Own("/repo/target/release/include".into())));
    }

    #[test]
    fn an_installation_is_used_where_it_is() {
        let files =
            beside("/opt/bin/pcce-clang++", &["/opt/lib/pcce/libpcce_pass.so", "/opt/include/pcce.h"]);
        assert_eq!(files.plugin(), Path::new("/opt/lib/pcce/libpcce_pass.so"));
        assert_eq!(files.header, Some(Header::Shared("/opt/include".into())));
    }

    #[test]
    fn missing_files_are_looked_for_beside_the_executable() {
        let files = beside("/opt/bin/pcce-clang", &[]);
        assert_eq!(files, Files { libraries: "/opt/bin".into(), header: None });
    }

    #[test]
    fn a_missing_compiler_is_an_error_with_the_cure() {
        let error = find_compiler("clang-of-nobody", Some(OsStr::new("/nowhere:"))).unwrap_err().to_string();
        assert!(error.contains(&format!("clang-of-nobody-{LLVM_VERSION}")), "{error}");
        let cure = format!("apt-get install clang-{LLVM_VERSION} lld-{LLVM_VERSION}");
        assert!(error.contains(&cure), "{error}");
    }
}
