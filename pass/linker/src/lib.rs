//! The program that runs the user's linker. Objects compiled by `pcce-clang` have symbols and references but
//! no code: code is generated when it is known what is linked. So a link has five steps, each in a module of
//! its own:
//!
//! 1. [`command`] reads the command line; a command that neither links an image nor joins objects (`-r`) goes to the
//!    linker unchanged;
//! 2. the linker links into a scratch file, and says which files it has read ([`trace`]);
//! 3. [`linked`] finds the objects whose ids are in that file;
//! 4. a generator makes code for them ([`Generate`]);
//! 5. [`inputs`] replaces the objects by this code, and the linker links again by the same command.
//!
//! [`keep`] puts the inputs of a link into a file ([`kept`]), and [`again`] makes the program again from that
//! file.
//!
//! After the second link, the ids of the code must be those of the first link, and the generator compares the
//! output with its code. If the ids differ (code needs a further member of an archive), all steps are
//! repeated once, with that member.

pub mod again;
pub mod archive;
pub mod command;
pub mod compiled;
pub mod elf;
mod error;
pub mod inputs;
pub mod keep;
pub mod kept;
pub mod linked;
mod links;
mod partial;
mod scratch;
mod scripts;
mod symbols;
pub mod trace;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, process};

use command::Command;
pub use error::Error;
use links::Links;

/// The symbol that objects without code refer to. A link that does not go through this program fails, and
/// names it.
pub const MARKER: &str = pcce_abi::skeleton::ENCODED_SYMBOL;

/// A module that was linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedModule {
    pub id: u64,
    /// The file that contains its object: the object, or an archive.
    pub file: PathBuf,
    /// The range in the file; none for the whole file.
    pub range: Option<Range<u64>>,
    /// The archive that has it as a member. Members of a thin archive are files of their own.
    pub archive: Option<PathBuf>,
    /// Its name in messages: `main.o`, `libx.a(x.o)`.
    pub shown: String,
    /// True if the linker has compiled it, and will compile its code.
    pub by_linker: bool,
}

/// Another object that was linked. If one of an archive's members of the same name was linked, all of them
/// are here. mold also names bitcode, and with `--gc-sections` members, that it has only read; gold names no
/// bitcode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainObject {
    /// The file: the object, or an archive.
    pub file: PathBuf,
    /// The range in the file; none for the whole file.
    pub range: Option<Range<u64>>,
    /// The archive that has it as a member. Members of a thin archive are files of their own.
    pub archive: Option<PathBuf>,
    /// Its name in messages.
    pub shown: String,
    /// True if it is LLVM's bitcode, and no machine code.
    pub bitcode: bool,
}

/// The inputs of code generation.
#[derive(Debug)]
pub struct FirstLink<'a> {
    /// The linked file, in which all modules are without code.
    pub output: &'a Path,
    /// The path of the user's output.
    pub target: &'a Path,
    /// True if it is a shared library.
    pub is_library: bool,
    /// The words of the command. Response files are expanded.
    pub arguments: Vec<OsString>,
    /// The modules, in the order of the output.
    pub modules: &'a [LinkedModule],
    /// All other objects.
    pub plain: &'a [PlainObject],
    /// The shared libraries that the linker has read.
    pub shared_libraries: &'a [PathBuf],
    /// The other files that it has read: scripts.
    pub others: &'a [PathBuf],
    /// A folder for generated files. It is removed after the link.
    pub folder: &'a Path,
    /// The second link may lay out thread-local storage in another way than this one.
    pub lays_out_anew: bool,
}

/// Describes a difference between an output and the plan; none if there is no difference.
pub type Check = Box<dyn Fn(&Path) -> Result<Option<String>, Box<dyn std::error::Error + Send + Sync>>>;

/// The code of the modules.
#[derive(Default)]
pub struct Generated {
    /// The object of each module, except those that the linker compiles.
    pub objects: Vec<(u64, PathBuf)>,
    /// Further objects that are linked.
    pub extra: Vec<PathBuf>,
    /// The second link fails if it lays out thread-local storage in another way than the first.
    pub relies_on_layout: bool,
    /// Further words for the second link.
    pub words: Vec<OsString>,
    /// Environment variables for the second link, with the pass's options for a linker that compiles.
    pub variables: Vec<(&'static str, OsString)>,
    /// The files that the code depends on, besides the modules.
    pub depends: Vec<PathBuf>,
    /// The profile of calls among them.
    pub profile: Option<PathBuf>,
    /// The SHA-256 of the compilers' own descriptions of their commands, in hexadecimal digits.
    pub commands: String,
    /// Compares the output with the plan after the second link, in addition to its modules.
    pub check: Option<Check>,
}

/// A generator of code for modules that were linked.
pub trait Generate {
    /// Generates the code.
    ///
    /// # Errors
    /// There is no code; then there is no output.
    fn generate(&self, first: &FirstLink) -> Result<Generated, Box<dyn std::error::Error + Send + Sync>>;
}

/// The program `ld`, called as linkers are. `folders` may have linkers that are not in PATH.
pub fn main(generate: &dyn Generate, folders: &[PathBuf]) -> ExitCode {
    let mut arguments = env::args_os();
    let name = arguments.next().map(PathBuf::from).unwrap_or_default();
    match linker(&name, folders).and_then(|linker| link(&linker, arguments.collect(), generate)) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "pcce-ld: error: {error}");
            match error {
                Error::Signal { signal, .. } => {
                    u8::try_from(128 + signal).map_or(ExitCode::FAILURE, ExitCode::from)
                }
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// The real linker: the one that is named, or the first one of the name by which this program was called
/// (`ld` for its own name) that is not this program.
fn linker(called: &Path, folders: &[PathBuf]) -> Result<PathBuf, Error> {
    let file =
        |path: &Path| fs::metadata(path).ok().filter(|data| data.is_file()).map(|d| (d.dev(), d.ino()));
    let own = env::current_exe().ok().and_then(|path| file(&path));
    if let Some(named) = env::var_os("PCCE_LINKER").filter(|name| !name.is_empty()) {
        let named = PathBuf::from(named);
        let other = named.is_absolute() && (own.is_none() || file(&named) != own);
        return if other { Ok(named) } else { Err(Error::NotALinker(named)) };
    }
    let name = called.file_name().unwrap_or_default();
    let name = if name.as_bytes().starts_with(b"pcce-ld") { OsStr::new("ld") } else { name };
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all = env::split_paths(&path).chain(folders.iter().cloned()).map(|folder| folder.join(name));
    let found = all.find(|linker| file(linker).is_some_and(|file| Some(file) != own));
    found.ok_or_else(|| Error::NoLinker(name.to_owned()))
}

/// Links by a command for `linker`, without its name. Returns the linker's status.
///
/// # Errors
/// There is no output.
pub fn link(linker: &Path, arguments: Vec<OsString>, generate: &dyn Generate) -> Result<ExitCode, Error> {
    let command = Command::read(arguments.clone())?;
    let only = command.words.iter().find(|word| word.meaning() == Some(command::Meaning::CompilesOnly));
    if let Some(word) = only.filter(|_| command.compiles()) {
        return Err(Error::CompilesOnly(word.texts[0].clone()));
    }
    if command.links_an_image() || command.joins_objects() {
        let links = Links::new(linker, &command)?;
        let linked = if command.joins_objects() { links.join() } else { links.run(generate) };
        if !matches!(linked, Ok(Some(ExitCode::SUCCESS) | None)) {
            scratch::take_away(&links.output);
        }
        if let Some(code) = linked? {
            return Ok(code);
        }
    }
    let source = process::Command::new(linker).args(arguments).exec();
    Err(Error::Run { program: linker.to_owned(), source })
}
