//! Why the pass gives up: each is an error of the compilation. The text names the thing, the cause and the cure.

use std::path::PathBuf;

use pcce_dictionary::calls::CallsError;

/// What ends the compilation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options cannot be understood.
    #[error("{0}")]
    Options(#[from] pcce_options::Error),
    /// A file that an option names cannot be read.
    #[error("cannot read {}, named by the option {option}: {cause}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The option.
        option: &'static str,
        /// Why.
        cause: std::io::Error,
    },
    /// The profile of calls is damaged.
    #[error("{}, named by the option profile-use: {cause}", file.display())]
    Profile {
        /// Its file.
        file: PathBuf,
        /// What is wrong with it.
        cause: CallsError,
    },
    /// The pass runs for the second time.
    #[error(
        "{module} is instrumented already; give the plugin to the compiler (-fpass-plugin) or to the linker \
         (--load-pass-plugin), not to both"
    )]
    Instrumented {
        /// The module's identifier.
        module: String,
    },
    /// The pass runs in front of link-time optimisation, for which the module was compiled.
    #[error(
        "{module} is compiled for link-time optimisation (-flto); give the plugin to the linker instead \
         (-Wl,--load-pass-plugin=…), as pcce-clang does"
    )]
    BeforeLink {
        /// The module's identifier.
        module: String,
    },
    /// A function would have to push at its entry and to leave its activation to another one.
    #[error(
        "function {function} is entered without a push (it replaces a library function that does not call back, or \
         code that LLVM inserts calls it), and it makes calls that must stay tail calls; its frame cannot be \
         kept. Rename it, or compile it without the pass"
    )]
    FrameNotKept {
        /// Its linkage name.
        function: String,
    },
    /// LLVM's verifier says something against the module.
    #[error("the instrumented module is broken, please report it: {said}")]
    Broken {
        /// What it says.
        said: String,
    },
    /// Code cannot be generated here, or a copy of the module cannot be made.
    #[error("{said}")]
    NoCode {
        /// What LLVM says.
        said: String,
    },
}
