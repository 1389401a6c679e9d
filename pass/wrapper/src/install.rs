//! The places of clang and of the parts of this project on this machine.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::Error;

/// The folder of an LLVM's programs in the distribution.
pub fn llvm_bin(llvm: u32) -> PathBuf {
    format!("/usr/lib/llvm-{llvm}/bin").into()
}

/// The header's folder, and how early the compiler may search it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header {
    /// A folder with nothing else in it, in the repository.
    Own(PathBuf),
    /// An installation's `include`, which other packages may share. It is searched after all other folders,
    /// since its order among the system's matters (`#include_next` in libstdc++).
    Shared(PathBuf),
}

/// The project's own files that a compilation needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The folder with the runtime libraries.
    pub libraries: PathBuf,
    /// The pass plugin.
    pub plugin: PathBuf,
    /// The program that runs the user's linker (`pcce-ld`).
    pub linker: PathBuf,
    /// The folder in which programs find the runtime for shared libraries, unless the system searches it.
    pub runpath: Option<PathBuf>,
    /// The folder with `pcce.h`, if there is one.
    pub header: Option<Header>,
}

impl Files {
    /// Finds the files from the wrapper's own executable (its symbolic links resolved): beside it, where the
    /// build leaves them, or in `../lib/pcce` and `../include`, where they are installed, perhaps with
    /// plugins for several LLVMs.
    pub fn beside(executable: &Path, llvm: u32, exists: impl Fn(&Path) -> bool) -> Self {
        let here = executable.parent().unwrap_or(Path::new("/"));
        let prefix = here.parent().unwrap_or(Path::new("/"));
        let installed = prefix.join("lib/pcce");
        let plugin = installed.join(format!("llvm-{llvm}")).join(PLUGIN);
        let beside = exists(&here.join(PLUGIN)) || !exists(&installed);

        let with_header = |folder: &PathBuf| exists(&folder.join("pcce.h"));
        let built = Some(here.join("include"));
        let header = match built.filter(|_| beside).filter(with_header) {
            Some(folder) => Some(Header::Own(folder)),
            None => Some(prefix.join("include")).filter(with_header).map(Header::Shared),
        };
        if beside {
            let plugin = here.join(if llvm == pcce_options::llvm() {
                PLUGIN.to_owned()
            } else {
                format!("llvm-{llvm}/{PLUGIN}")
            });
            let linker = here.join("pcce-ld");
            return Files {
                libraries: here.to_owned(),
                plugin,
                linker,
                runpath: Some(here.to_owned()),
                header,
            };
        }
        let runpath = Some(prefix.join("lib")).filter(|_| prefix != Path::new("/usr"));
        let linker = here.join("pcce-ld");
        Files { libraries: installed, plugin, linker, runpath, header }
    }

    /// The same with the runtime for another machine, which is in folders beside this machine's.
    #[must_use]
    pub fn for_target(mut self, folder: &str) -> Self {
        self.libraries.push(folder);
        self.runpath = self.runpath.map(|path| path.join(folder));
        self
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

    /// The replacements of libc's functions for executables, which one of these runtimes needs.
    pub fn libc_archive(&self) -> PathBuf {
        self.libraries.join("libpcce_libc.a")
    }

    /// The tracer for executables, beside one of these runtimes.
    pub fn trace_archive(&self) -> PathBuf {
        self.libraries.join("libpcce_trace.a")
    }

    /// The part of the tracer in traced shared libraries.
    pub fn trace_module(&self) -> PathBuf {
        self.libraries.join("pcce_trace_module.o")
    }

    /// The replacements of the unwinder's functions that record where exceptions were thrown.
    pub fn thrown_object(&self) -> PathBuf {
        self.libraries.join("pcce_thrown.o")
    }

    /// The runtime for shared libraries.
    pub fn shared_runtime(&self) -> PathBuf {
        self.libraries.join(SHARED_RUNTIME)
    }
}

const PLUGIN: &str = "libpcce_pass.so";
/// The name by which the runtime for shared libraries is linked.
pub const SHARED_RUNTIME: &str = "libpcce_rt.so";
/// The name by which the tracer for shared libraries is linked.
pub const SHARED_TRACER: &str = "libpcce_trace.so";

/// Finds `clang` or `clang++` of the right version: by its versioned name in
/// `path`, then where the distribution keeps it.
///
/// # Errors
///
/// [`Error::NoCompiler`] if it is in none of these places.
pub fn find_compiler(name: &str, llvm: u32, path: Option<&OsStr>) -> Result<PathBuf, Error> {
    find_in(path, &format!("{name}-{llvm}"))
        .or_else(|| Some(llvm_bin(llvm).join(name)).filter(|file| is_executable(file)))
        .ok_or(Error::NoCompiler { name: name.to_owned(), llvm })
}

/// Returns whether `-fuse-ld=lld` will find a linker. Clang searches its own folder, then `path`.
pub fn has_lld(compiler: &Path, llvm: u32, path: Option<&OsStr>) -> bool {
    let own = fs::canonicalize(compiler).ok();
    let known = llvm_bin(llvm);
    let beside = own.as_deref().and_then(Path::parent).unwrap_or(&known);
    // A compiler cache may replace the compiler, so its folder alone is not decisive.
    [beside, &known].iter().any(|folder| is_executable(&folder.join("ld.lld")))
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
        Files::beside(Path::new(executable), pcce_options::llvm(), |path| {
            present.iter().any(|p| Path::new(p) == path)
        })
    }

    #[test]
    fn the_build_tree_is_used_where_it_is() {
        let files = beside(
            "/repo/target/release/pcce-clang",
            &["/repo/target/release/libpcce_pass.so", "/repo/target/release/include/pcce.h"],
        );
        assert_eq!(files.plugin, Path::new("/repo/target/release/libpcce_pass.so"));
        assert_eq!(files.archive(), Path::new("/repo/target/release/libpcce_rt.a"));
        assert_eq!(files.shared_runtime(), Path::new("/repo/target/release/libpcce_rt.so"));
        assert_eq!(files.header, Some(Header::Own("/repo/target/release/include".into())));
        assert_eq!(files.runpath, Some("/repo/target/release".into()));
        let other = files.for_target("m-linux-gnu");
        assert_eq!(other.shared_runtime(), Path::new("/repo/target/release/m-linux-gnu/libpcce_rt.so"));
        assert_eq!(other.runpath, Some("/repo/target/release/m-linux-gnu".into()));
    }

    #[test]
    fn an_installation_is_used_where_it_is() {
        let files = beside("/opt/bin/pcce-clang++", &["/opt/lib/pcce", "/opt/include/pcce.h"]);
        assert_eq!(
            files.plugin,
            Path::new(&format!("/opt/lib/pcce/llvm-{}/libpcce_pass.so", pcce_options::llvm()))
        );
        assert_eq!(files.header, Some(Header::Shared("/opt/include".into())));
        assert_eq!(files.runpath, Some("/opt/lib".into()));
        let other = files.for_target("m-linux-gnu");
        assert_eq!(other.archive(), Path::new("/opt/lib/pcce/m-linux-gnu/libpcce_rt.a"));
        assert_eq!(other.runpath, Some("/opt/lib/m-linux-gnu".into()));
        // Every program searches the system's own installation.
        assert_eq!(beside("/usr/bin/pcce-clang", &["/usr/lib/pcce"]).runpath, None);
    }

    #[test]
    fn missing_files_are_looked_for_beside_the_executable() {
        let files = beside("/opt/bin/pcce-clang", &[]);
        assert_eq!((files.libraries, files.header), ("/opt/bin".into(), None));
        assert_eq!(files.plugin, Path::new("/opt/bin/libpcce_pass.so"));
    }

    #[test]
    fn a_missing_compiler_is_an_error_with_the_cure() {
        let error =
            find_compiler("clang-of-nobody", 19, Some(OsStr::new("/nowhere:"))).unwrap_err().to_string();
        assert!(error.contains("clang-of-nobody-19") && error.contains("/usr/lib/llvm-19/bin"), "{error}");
        assert!(error.contains("apt-get install clang-19 lld-19"), "{error}");
    }
}
