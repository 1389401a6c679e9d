//! Reasons why something was not linked. Each text names the thing, the cause and the cure.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// A reason why something was not linked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A program cannot be started.
    #[error("cannot run the linker `{}`: {source}; PCCE_LINKER names another one", .program.display())]
    Run {
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A program was ended by a signal.
    #[error("the linker `{}` was ended by signal {signal}; there is no output", .program.display())]
    Signal {
        program: PathBuf,
        /// The signal's number.
        signal: i32,
    },
    /// There is no linker.
    #[error("no linker `{}` in PATH, besides this program; PCCE_LINKER names one by its whole path", .0.display())]
    NoLinker(OsString),
    /// The linker cannot be found, or it is this program.
    #[error("PCCE_LINKER is `{}`, and must be the whole path of a linker that is not this program", .0.display())]
    NotALinker(PathBuf),
    /// A file of words that names itself.
    #[error("the response file `{}` names itself, or one of a hundred within each other", .0.display())]
    ResponseFile(OsString),
    /// An option with which the linker only compiles.
    #[error(
        "`{}` is not supported: the linker generates code when it is known what is linked, and links nothing with it; \
         leave the option out, or use `--pcce-mode=module` without `-flto`",
        .0.display()
    )]
    CompilesOnly(OsString),
    /// The pass has not run where the linker has compiled.
    #[error(
        "the linker has made code of `{0}` without the pass; compile without `-flto`, and report it: this is a fault of PCCE"
    )]
    NotCaptured(String),
    /// Bitcode among the inputs of a partial link.
    #[error(
        "{} is joined of bitcode (-flto), and code is generated when the program is linked; compile what is joined \
         without -flto",
        .0.display()
    )]
    JoinsBitcode(PathBuf),
    /// An option with which nothing can be linked twice.
    #[error(
        "`{}` is not supported: the program is linked twice, and the outputs are compared; leave the option out, or \
         compile without PCCE what is linked with it",
        .0.display()
    )]
    Refused(OsString),
    /// An object, an archive or an output that is damaged.
    #[error("{file}: {cause}")]
    Damaged {
        /// The file, or the member of an archive.
        file: String,
        /// What is wrong.
        cause: String,
    },
    /// An archive of a kind that no linker here writes.
    #[error("{}: an archive of this kind ({kind}) cannot be copied; make it with GNU ar or llvm-ar", .file.display())]
    Archive {
        /// The archive.
        file: PathBuf,
        kind: String,
    },
    /// Modules that were joined to one object.
    #[error(
        "{file} holds {modules} modules, and not their objects: `ld -r` has joined objects that have no code yet; link \
         these themselves, or join them by pcce-clang or pcce-ld (`-r`)"
    )]
    Joined {
        /// The object.
        file: String,
        /// The number of modules.
        modules: usize,
    },
    /// A module that was joined with something else.
    #[error(
        "{file}: `ld -r` has joined it with other objects, of which nothing is left when the code of its modules is \
         generated; link these themselves, or join them by pcce-clang or pcce-ld (`-r`)"
    )]
    JoinedWithOthers {
        /// The object.
        file: String,
    },
    /// A module whose symbols have other names.
    #[error(
        "{file}: symbol `{name}` {what}: the object was changed when it was compiled (by objcopy?), and its code is \
         generated now, with the names of its module; change the names in the source, or compile it without PCCE"
    )]
    Symbols {
        /// The object.
        file: String,
        /// The symbol.
        name: String,
        /// What it is.
        what: &'static str,
    },
    /// An object that cannot be joined again.
    #[error(
        "{file} is linked again by the command that has joined it (`ld -r`), of generated code, and that fails: {said}"
    )]
    Partial {
        /// The object.
        file: String,
        /// What the linker says.
        said: String,
    },
    /// The output of a partial link has lost its inputs.
    #[error("{}: {what}; the file was removed", .file.display())]
    NotJoined {
        /// The object.
        file: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// A tool that failed.
    #[error("`objcopy`, which changes linked objects, fails: {0}")]
    Objcopy(String),
    /// A tool that is not there.
    #[error("cannot run `objcopy`, which changes linked objects: {0}; install binutils")]
    NoObjcopy(io::Error),
    /// A module that no input has.
    #[error(
        "the output holds module {0:016x}, and no file or member that was linked does; a linker script or plugin that \
         makes inputs of its own is not supported"
    )]
    Unexplained(u64),
    /// One module, linked twice.
    #[error("{file} was linked {times} times (or a copy of it); leave the others out")]
    LinkedTwice {
        /// The object.
        file: String,
        /// How often the module was linked.
        times: usize,
    },
    /// Two objects with the id of one module.
    #[error("{first} and {second} are one module, and differ; compile one of them anew")]
    Differ {
        /// An object.
        first: String,
        /// The other object.
        second: String,
    },
    /// A linked file that cannot be replaced.
    #[error(
        "{} is linked in a way that is neither the command line nor a list of a linker script (INPUT, GROUP); name it on the \
         command line",
        .0.display()
    )]
    NotOnTheCommandLine(PathBuf),
    /// A module for which no code was generated.
    #[error("no code was generated for {0}")]
    NotGenerated(String),
    /// Generated code that is not what it should be.
    #[error("the code generated for {file} is that of another module, or of none: {cause}")]
    WrongCode {
        /// The module.
        file: String,
        /// What is wrong.
        cause: String,
    },
    /// The generator has made no code, and says why.
    #[error("{0}")]
    Generate(Box<dyn std::error::Error + Send + Sync>),
    /// Objects that the linker compiles cannot be kept.
    #[error(
        "`--pcce-keep` and `-flto=thin` do not go together: the linker compiles, and nobody else can do it again; leave one \
         of them out"
    )]
    KeepsBitcode,
    /// A file name would change.
    #[error(
        "{} has no SONAME, so that the program loads it by the name on this command line, which counts from this folder: \
         that cannot be kept (--pcce-keep); link the library with `-Wl,-soname,NAME`, or name it by `-l`",
        .0.display()
    )]
    NoName(PathBuf),
    /// The kept file could not be found again.
    #[error(
        "{} has no build id, by which the file in the folder of `--pcce-keep` is named; link with `-Wl,--build-id`",
        .0.display()
    )]
    NoBuildId(PathBuf),
    /// A file that is neither a kept file nor a program.
    #[error("{} is no file that a link has kept (--pcce-keep), and no program with a build id", .0.display())]
    KeptForeign(PathBuf),
    /// A kept file of another release.
    #[error(
        "{} is of version {version}, and this release reads version {}; use the release with which the program was linked, or \
         link it again",
        .file.display(), crate::kept::VERSION
    )]
    KeptVersion { file: PathBuf, version: u32 },
    /// A kept file that is not as it was written.
    #[error("{} is damaged: {cause}; link the program again with `--pcce-keep`", .file.display())]
    KeptDamaged {
        file: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// Nothing was kept.
    #[error(
        "nothing was kept of {}: there is no {}; link it with `--pcce-keep`, or name the file or its folder (--kept)",
        .program.display(), shown(.places)
    )]
    KeptNowhere {
        program: PathBuf,
        /// The places where the kept file would be.
        places: Vec<PathBuf>,
    },
    /// The kept file is of another build.
    #[error(
        "{} is of another build than {}, which was linked again without `--pcce-keep`, or changed; link it with it",
        .file.display(), .program.display()
    )]
    KeptOther { program: PathBuf, file: PathBuf },
    /// A file that is not as it was.
    #[error(
        "{} {cause}: the program was linked with it, and only its name and its hash were kept; put it there again, or link \
         the program anew from its sources",
        .path.display()
    )]
    KeptInput {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A link that is made again would make another program.
    #[error("what is linked now is not what was linked then: {0}; link the program anew from its sources")]
    KeptDiffers(String),
    /// A link that is made again would generate other code.
    #[error(
        "the compilers of the program do something else than when it was linked: their configuration files, or, with \
         -march=native, the machine are other ones; link the program anew from its sources"
    )]
    KeptCommands,
    /// A link that was made again, with the user's names.
    #[error("{0}")]
    Again(String),
    /// The second link has not linked the same modules as the first one, nor has the link after it.
    #[error(
        "what is linked depends on the code that is generated for it: {0}; please report it, and link with \
         `--whole-archive` around the archive meanwhile"
    )]
    Unstable(String),
    /// The second link has not made what was planned.
    #[error(
        "{0}: the linker has made of the generated code something else than of the modules before; please report it, \
         and link with another linker meanwhile"
    )]
    OtherCode(String),
}

fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", and no ")
}

impl Error {
    /// For errors of the system.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    }
}
