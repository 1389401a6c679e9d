//! Why an executable cannot be encoded. The text names the thing, the cause and the cure.

use pcce_dictionary::DictionaryError;

/// Why an executable cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is no ELF file for x86-64, or a damaged one.
    #[error("no linked program for x86-64 (ELF): {0}")]
    NotElf(String),
    /// It is an object file, or a core.
    #[error("no executable or shared library; link mode encodes what a linker has made")]
    NotLinked,
    /// Code of a shared library that only executables can have.
    #[error("{module} is in a shared library, and was compiled without -fPIC; compile it with -fPIC")]
    NotForLibrary {
        /// The module's identifier.
        module: String,
    },
    /// What a library must have is not in it.
    #[error(
        "the library does not find {0} in another image, as it should; link it with the runtime as a shared library \
         (-lpcce_rt), not with the archive"
    )]
    NotReferred(&'static str),
    /// There is nothing to encode.
    #[error("no module of it was compiled for link mode (`--pcce-mode=link`), or the step has run already")]
    Nothing,
    /// Nothing of the modules is in the file.
    #[error("the linker has left out all modules of it that were compiled for link mode")]
    LeftOut,
    /// What would tell where a module's functions are is not in the file.
    #[error(
        "{module}: the linker has left out its call sites, and not its code; link with lld, or without --gc-sections"
    )]
    NoSites {
        /// The module's identifier.
        module: String,
    },
    /// Its dictionary is damaged.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
    /// An object whose code is generated at the link lacks something of that.
    #[error(
        "the object of module {id:016x} has no section {section}: a tool has taken it away; compile the object again"
    )]
    Skeleton {
        /// The module's id.
        id: u64,
        /// What is missing.
        section: &'static str,
    },
    /// An object was linked twice.
    #[error("{function} of {module} is in the program twice; link the object once")]
    Twice {
        /// The function.
        function: String,
        /// The module's identifier.
        module: String,
    },
    /// A module's facts are of another version of the pass.
    #[error(
        "{module}: what the pass noted for the link step cannot be read ({cause}); compile it with this release"
    )]
    Facts {
        /// The module's identifier.
        module: String,
        /// What is wrong.
        cause: String,
    },
    /// Two modules were compiled with different options.
    #[error(
        "{module} was compiled with other options of the pass than {other}; compile all modules with the same ones"
    )]
    Options {
        /// A module.
        module: String,
        /// Another one.
        other: String,
    },
    /// A module lacks what its link asks for.
    #[error("{module} was compiled without `--pcce-{option}`, which the link has; give both the same flags")]
    Without {
        /// The module's identifier.
        module: String,
        /// The name of an option.
        option: String,
    },
    /// Two parts of the program would take each other's ids for their own.
    #[error(
        "{module} was encoded in lto mode, together with modules of link mode; build the program in one of them"
    )]
    WholeProgram {
        /// The module's identifier.
        module: String,
    },
    /// The symbol table is needed.
    #[error(
        "the program has no symbol {0}; link it with the runtime library, and without -s (strip it afterwards)"
    )]
    NoSymbol(&'static str),
    /// Two modules have one name in their no-ops, and code of theirs is not where its function is.
    #[error(
        "{module} and {other} cannot be told apart in the program's code (by chance: their digests are the same); \
         compile one of them with `--pcce-mode=module`"
    )]
    SameName {
        /// A module.
        module: String,
        /// Another one.
        other: String,
    },
    /// The model says something against the program.
    #[error(transparent)]
    Model(#[from] pcce_model::Error),
    /// There is no room for verify mode's tables.
    #[error(
        "the tables of verify mode are not where the pass left room for them; compile all modules with this release"
    )]
    NoVerifyTables,
    /// There is no room for what makes numbers of contexts.
    #[error(
        "the words for `pcce_context()` are not where the pass left room for them; compile all modules with this \
         release"
    )]
    NoNumberBases,
    /// A value is too wide for an instruction, and there is no room for more.
    #[error("no room for values of more than 31 bits; compile with `--pcce-id-bits=29`")]
    NoRoom,
}
