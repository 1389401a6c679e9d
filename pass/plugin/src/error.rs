//! Errors of the pass. Each ends the compilation. Its text names the thing, the cause and the cure.

/// An error that ends the compilation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options cannot be understood.
    #[error("{0}")]
    Options(#[from] pcce_options::Error),
    /// An error of the model: in the program, or in a file that an option names.
    #[error("{0}")]
    Model(#[from] pcce_model::Error),
    /// The pass runs for the second time.
    #[error(
        "{module} is instrumented already; give the plugin to the compiler (-fpass-plugin) or to the linker \
         (--load-pass-plugin), not to both"
    )]
    Instrumented {
        /// The module's identifier.
        module: String,
    },
    /// The pass runs before link-time optimisation, for which the module was compiled.
    #[error(
        "{module} is compiled for link-time optimisation (-flto); give the plugin to the linker instead \
         (-Wl,--load-pass-plugin=…), as pcce-clang does"
    )]
    BeforeLink {
        /// The module's identifier.
        module: String,
    },
    /// The decisions of the link step cannot be used.
    #[error(
        "{module}: what the link has decided of it does not fit ({what}); remove the object that it is from, and compile it again"
    )]
    Slice {
        /// The module's identifier.
        module: String,
        /// What is wrong.
        what: String,
    },
    /// A function is entered where the program calls nothing.
    #[error(
        "{function} is called where no call of the program shows it (by code that LLVM inserts, or by a function that is \
         known to call nothing back), and calls code that is not known, which traces of calls cannot tell; build without \
         `--pcce-trace`"
    )]
    UntracedCalls { function: String },
    /// The module's code and its facts do not agree about traces.
    #[error("{function}: other modules rely on its events, and it has none; please report this")]
    NotRecorded { function: String },
    /// LLVM's verifier rejects the module.
    #[error("the instrumented module is broken, please report it: {said}")]
    Broken {
        /// The verifier's message.
        said: String,
    },
    /// Code cannot be generated here, or a copy of the module cannot be made.
    #[error("{said}")]
    NoCode {
        /// LLVM's message.
        said: String,
    },
}
