//! Reasons why a program cannot be instrumented. Each text names the thing, the cause and the cure.

use std::path::PathBuf;

use pcce_dictionary::calls::CallsError;

/// An error in a program, or in a file that an option names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that an option names cannot be read.
    #[error("cannot read {}, named by the option {option}: {cause}", file.display())]
    Unreadable {
        file: PathBuf,
        /// The option.
        option: &'static str,
        /// Why.
        cause: std::io::Error,
    },
    /// A name that an option gives is no pattern.
    #[error("{name}, named by the option {option}, is no pattern: {cause}")]
    Pattern {
        name: String,
        /// The option.
        option: &'static str,
        /// Why.
        cause: &'static str,
    },
    /// The profile of calls is damaged.
    #[error("{}, named by the option profile-use: {cause}", file.display())]
    Profile {
        file: PathBuf,
        /// What is wrong with it.
        cause: CallsError,
    },
    /// A function would have to push at its entry and to leave its activation to another function.
    #[error(
        "function {function} is entered without a push (it replaces a library function that does not call back, or \
         code that LLVM inserts calls it), and it makes calls that must stay tail calls; its frame cannot be \
         kept. Rename it, or compile it without the pass"
    )]
    FrameNotKept {
        /// Its linkage name.
        function: String,
    },
}
