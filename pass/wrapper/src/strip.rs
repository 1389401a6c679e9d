//! What a command line lets the linker take away from a program. Link mode needs it, and takes it away itself.

use crate::args::{Role, Word};

/// What is taken away from a linked program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strip {
    /// What debuggers need.
    Debug,
    /// All symbols, too.
    All,
}

/// What a word for the linker lets it take away.
fn stripping(word: &[u8]) -> Option<Strip> {
    match word {
        b"-s" | b"--strip-all" => Some(Strip::All),
        b"-S" | b"--strip-debug" => Some(Strip::Debug),
        _ => None,
    }
}

/// What this word alone lets the linker take away.
pub fn strips(word: &Word) -> Option<Strip> {
    match (word.role, word.bytes()) {
        (Role::Option, b"-s") => Some(Strip::All),
        (Role::Option, word) => stripping(word.strip_prefix(b"-Wl,")?),
        _ => None,
    }
}

/// Whether this word asks for the same in a list of others.
pub fn strips_in_list(word: &Word) -> bool {
    let list = word.bytes().strip_prefix(b"-Wl,").filter(|_| strips(word).is_none());
    let mut list = list.into_iter().flat_map(|list| list.split(|&byte| byte == b','));
    list.any(|word| stripping(word).is_some())
}
