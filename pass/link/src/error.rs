//! Reasons why an executable cannot be encoded. Each text names the thing, the cause and the cure.

use pcce_dictionary::DictionaryError;

/// A reason why an executable cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is no ELF file for a known machine, or a damaged one.
    #[error("no linked program for {machines} (ELF): {0}", machines = pcce_abi::machine::NAMES)]
    NotElf(String),
    /// It is an object file, or a core.
    #[error("no executable or shared library; link mode encodes what a linker has made")]
    NotLinked,
    /// Its dictionary is damaged.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
    /// An object whose code is generated at the link lacks one of its sections.
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
    LinkedTwice {
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
        module: String,
        /// The identifier of another module.
        other: String,
    },
    /// A module was compiled without an option that its link has.
    #[error("{module} was compiled without `--pcce-{option}`, which the link has; give both the same flags")]
    Without {
        /// The module's identifier.
        module: String,
        /// The name of an option.
        option: String,
    },
    /// A traced module calls a function of its own by a name that the linker binds to another function.
    #[error(
        "{module}: `{function}` is another function in this program than in the module (by `-z muldefs`, `--defsym`, \
         `--wrap` or objcopy), and its trace would name the wrong one; leave that out, or use `--pcce-mode=lto`"
    )]
    Replaced {
        /// The module's identifier.
        module: String,
        function: String,
    },
    /// A function has the name of a function that is known not to call back, but was compiled with another
    /// name.
    #[error(
        "{module}: `{function}` is called by the name `{name}` in this program, and calls of functions of that name do \
         not say where they are; give the function that name in its source (an alias will do)"
    )]
    Listed {
        /// The module's identifier.
        module: String,
        function: String,
        name: String,
    },
    /// The model rejects the program.
    #[error(transparent)]
    Model(#[from] pcce_model::Error),
    /// There is no room for verify mode's tables.
    #[error(
        "the tables of verify mode are not where the pass left room for them; compile all modules with this release"
    )]
    NoVerifyTables,
}
