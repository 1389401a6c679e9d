//! What a command line lets the linker take away from a program. Link mode needs it, and takes it away itself.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::args::{Role, Word};
use crate::command::{handed_on, linker_arguments};

/// What is taken away from a linked program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strip {
    /// What debuggers need.
    Debug,
    /// All symbols, too.
    All,
}

/// What an argument of the linker lets it take away.
fn stripping(argument: &[u8]) -> Option<Strip> {
    match argument {
        b"-s" | b"--strip-all" => Some(Strip::All),
        b"-S" | b"--strip-debug" => Some(Strip::Debug),
        _ => None,
    }
}

/// Whether this is clang's own word for it.
fn is_own(word: &Word) -> bool {
    word.role == Role::Option && word.bytes() == b"-s"
}

/// What these words let the linker take away.
pub fn asked_for(words: &[Word]) -> Option<Strip> {
    let own = words.iter().filter(|word| is_own(word)).map(|_| Strip::All);
    own.chain(linker_arguments(words).into_iter().filter_map(stripping)).max()
}

/// An argument that all linkers ignore.
const NOTHING: &[u8] = b"-g";

/// The word at `index` as it is where the linker is to take nothing away; none if it is left out.
pub fn without(words: &[Word], index: usize) -> Option<OsString> {
    let word = &words[index];
    if is_own(word) {
        return None;
    }
    let Some((prefix, arguments)) = handed_on(words, index) else { return Some(word.text.clone()) };
    let kept = |argument| if stripping(argument).is_some() { NOTHING } else { argument };
    let kept: Vec<&[u8]> = arguments.into_iter().map(kept).collect();
    Some(OsString::from_vec([prefix.as_bytes(), &kept.join(&b',')].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn the_linker_takes_nothing_away() {
        for (line, asked, left) in [
            ("a.o -o s", None, "a.o -o s"),
            ("-s a.o", Some(Strip::All), "a.o"),
            ("-Wl,-O1,-s,--as-needed a.o", Some(Strip::All), "-Wl,-O1,-g,--as-needed a.o"),
            ("-Wl,--strip-debug a.o", Some(Strip::Debug), "-Wl,-g a.o"),
            (
                "-Xlinker -S a.o -Xlinker -soname -Xlinker x",
                Some(Strip::Debug),
                "-Xlinker -g a.o -Xlinker -soname -Xlinker x",
            ),
            ("--for-linker=-s -Wl,-S a.o", Some(Strip::All), "--for-linker=-g -Wl,-g a.o"),
            ("-o -s a.o -Wl,-static,-x", None, "-o -s a.o -Wl,-static,-x"),
        ] {
            let words = args::parse(line.split(' ').map(Into::into), |_| None).unwrap().words;
            assert_eq!(asked_for(&words), asked, "{line}");
            let kept: Vec<OsString> = (0..words.len()).filter_map(|index| without(&words, index)).collect();
            assert_eq!(kept, left.split(' ').collect::<Vec<_>>(), "{line}");
        }
    }
}
