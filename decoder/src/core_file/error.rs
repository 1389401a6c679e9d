//! Errors of reading a core file.

use std::io;
use std::path::PathBuf;

use pcce_abi as abi;
use thiserror::Error;

/// Errors of reading a core file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CoreError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {cause}", .path.display())]
    Io { path: PathBuf, cause: io::Error },
    /// The file is no ELF file, or a damaged one.
    #[error("{}: {cause}; copy it again", .path.display())]
    Elf { path: PathBuf, cause: object::Error },
    /// The file is no core file.
    #[error(
        "{}: not a core file of a Linux program for {}; the program comes first: pcce core PROGRAM CORE",
        .0.display(),
        abi::machine::NAMES
    )]
    NotACore(PathBuf),
    #[error("{}: it holds no thread's registers; it was cut, or is no process's core file", .0.display())]
    NoThread(PathBuf),
    /// A thread's registers lack the thread pointer.
    #[error(
        "{}: it lacks the thread pointer of thread {thread}, by which its context is found; \
         Linux writes one (the note NT_ARM_TLS), and qemu-user's core files have none",
        .core.display()
    )]
    NoThreadPointer { core: PathBuf, thread: i32 },
    /// The core file is another program's.
    #[error("{}: the core file is of another build than {}: {what}; give the program that crashed", .core.display(), .program.display())]
    OtherProgram { core: PathBuf, program: PathBuf, what: String },
    /// Nothing says where the threads' state is.
    #[error(
        "{}: nothing tells where its threads keep their contexts ({}): it was not built with the pass, or everything was stripped from it; give its debug file with --debug-file",
        .0.display(),
        abi::TLS_SYMBOL
    )]
    NoState(PathBuf),
    /// The program keeps its state in another way.
    #[error("{}: was built with another version of PCCE ({found}; this one reads {}); use that version's `pcce core`", .program.display(), abi::VERSION_SYMBOL)]
    OtherVersion {
        program: PathBuf,
        /// The symbol that names its version.
        found: String,
    },
}
