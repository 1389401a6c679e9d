//! The command line of the linker: its inputs, its output, and its options.
//!
//! The spellings of all four linkers are read at once. Spellings that only one linker knows do no harm to the
//! others: a word that is mistaken for a file is not found among the linked files.

mod response;
mod table;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub use response::{split_gnu, write as write_response_file};
pub use table::Meaning;
use table::Takes;

use crate::Error;

/// The kind of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An input: an object, an archive, a library, a script.
    Input,
    /// An option, with its value if that is a word of its own.
    Option(Meaning, Option<OsString>),
}

/// A word of the command, or an option with the word that is its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The original words: one or two.
    pub texts: Vec<OsString>,
    /// Its kind.
    pub kind: Kind,
}

impl Word {
    /// Its meaning; none for files.
    pub fn meaning(&self) -> Option<Meaning> {
        match self.kind {
            Kind::Input => None,
            Kind::Option(meaning, _) => Some(meaning),
        }
    }

    pub fn value(&self) -> Option<&OsStr> {
        match &self.kind {
            Kind::Option(_, Some(value)) => Some(value),
            _ => None,
        }
    }

    /// The word with another file instead of the one that it names or looks for.
    pub fn with_file(&self, file: &Path) -> Vec<OsString> {
        match self.meaning() {
            Some(Meaning::Reads | Meaning::SecondReads) => self.with_value(file.as_os_str()),
            _ => vec![file.into()],
        }
    }

    /// The option with another value.
    pub fn with_value(&self, new: &OsStr) -> Vec<OsString> {
        let value = self.value().unwrap_or_default();
        let (last, before) = self.texts.split_last().expect("a word has a text");
        let mut last = last.as_bytes().strip_suffix(value.as_bytes()).unwrap_or_default().to_vec();
        last.extend(new.as_bytes());
        before.iter().cloned().chain([OsString::from_vec(last)]).collect()
    }

    /// Returns whether it asks for the linker's map on standard output, by the name of a file.
    pub fn is_map_on_output(&self) -> bool {
        let output =
            |value: &OsStr| ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|o| value == *o);
        self.meaning() == Some(Meaning::SideText) && self.value().is_some_and(output)
    }

    /// The file that it names.
    pub fn input(&self) -> Option<&Path> {
        (self.kind == Kind::Input).then(|| Path::new(&self.texts[0]))
    }
}

/// The command line of a linker, without the linker's name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// Its words. Response files are expanded.
    pub words: Vec<Word>,
}

impl Command {
    /// Reads a command line.
    ///
    /// # Errors
    /// A response file names itself.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Error> {
        Ok(Self::of_words(response::open(arguments).map_err(Error::ResponseFile)?))
    }

    /// Takes words without response files.
    pub fn of_words(words: impl IntoIterator<Item = OsString>) -> Self {
        let mut texts = words.into_iter().peekable();
        let mut words = Vec::new();
        while let Some(text) = texts.next() {
            let bytes = text.as_bytes();
            if bytes == b"-" || !bytes.starts_with(b"-") {
                words.push(Word { texts: vec![text], kind: Kind::Input });
                continue;
            }
            if let Some(letters) = cluster(bytes) {
                words.extend(letters.map(|(letter, meaning)| Word {
                    texts: vec![OsString::from_vec(vec![b'-', letter])],
                    kind: Kind::Option(meaning, None),
                }));
                continue;
            }
            let (takes, meaning, joined) = option(bytes);
            let mut value = joined.map(OsStr::to_owned);
            let mut texts_of = vec![text.clone()];
            let next_is_value = match takes {
                Takes::Value => joined.is_none(),
                Takes::Number => {
                    joined.is_none()
                        && texts
                            .peek()
                            .is_some_and(|next| next.as_bytes().first().is_some_and(u8::is_ascii_digit))
                }
                Takes::Nothing | Takes::Joined => false,
            };
            if next_is_value && let Some(next) = texts.next() {
                texts_of.push(next.clone());
                value = Some(next);
            }
            // With a size, GNU ld's `-G` is the limit of small data.
            let meaning = if bytes.starts_with(b"-G") && value.is_some() { Meaning::Other } else { meaning };
            words.push(Word { texts: texts_of, kind: Kind::Option(meaning, value) });
        }
        Command { words }
    }

    fn has(&self, meaning: Meaning) -> bool {
        self.words.iter().any(|word| word.meaning() == Some(meaning))
    }

    /// Returns whether an executable or a shared library is linked.
    pub fn links_an_image(&self) -> bool {
        self.links() && !self.is_partial()
    }

    /// Returns whether objects are joined to one object.
    pub fn joins_objects(&self) -> bool {
        self.links() && self.is_partial()
    }

    /// Returns whether the linker compiles bitcode with a pass.
    pub fn compiles(&self) -> bool {
        self.has(Meaning::Plugin)
    }

    /// Returns whether the words ask for a partial link.
    pub fn is_partial(&self) -> bool {
        self.has(Meaning::Relocatable)
    }

    /// Returns whether the words ask for folding of equal functions.
    pub fn folds(&self) -> bool {
        self.has(Meaning::Folding)
    }

    /// Returns whether the words ask for a program at fixed addresses.
    pub fn is_at_fixed_addresses(&self) -> bool {
        self.has(Meaning::Fixed)
    }

    /// Returns whether the command only links: it asks no question, and has inputs.
    fn links(&self) -> bool {
        let file = |word: &Word| matches!(word.kind, Kind::Input | Kind::Option(Meaning::Library, _));
        !self.has(Meaning::Question) && self.words.iter().any(file)
    }

    /// The output file.
    pub fn output(&self) -> PathBuf {
        let named = self.words.iter().rev().find(|word| word.meaning() == Some(Meaning::Output));
        named.and_then(Word::value).map_or_else(|| PathBuf::from("a.out"), PathBuf::from)
    }

    /// Returns whether the output is a shared library.
    pub fn is_library(&self) -> bool {
        let kinds = self.words.iter().rev().filter_map(Word::meaning);
        let of_image = |m: &Meaning| matches!(m, Meaning::Shared | Meaning::Executable | Meaning::Fixed);
        kinds.clone().find(of_image) == Some(Meaning::Shared)
    }

    /// The first word that makes it impossible to link twice.
    pub fn refused(&self) -> Option<&Word> {
        self.words.iter().find(|word| {
            // ELF is the format of every output here.
            let elf = word.value().is_some_and(|value| value.as_bytes().starts_with(b"elf"));
            let refused = word.meaning() == Some(Meaning::Refused)
                && !(elf && word.texts[0].as_bytes().contains(&b'f'));
            // The objects that the linker keeps are compared with the output.
            refused || self.compiles() && word.meaning() == Some(Meaning::Objects)
        })
    }

    /// The text files in which the linker writes names of linked files, each with whether `make` reads it.
    pub fn side_texts(&self) -> Vec<(PathBuf, bool)> {
        let texts = self.words.iter().filter_map(|word| match word.meaning()? {
            Meaning::SideText if !word.is_map_on_output() => Some((word.value()?.into(), false)),
            Meaning::Dependencies => Some((word.value()?.into(), true)),
            _ => None,
        });
        texts.collect()
    }
}

/// The letters of a word such as `-rs`, if it is nothing else.
fn cluster(word: &[u8]) -> Option<impl Iterator<Item = (u8, Meaning)>> {
    let letters = &word[1..];
    let one = |letter: &u8| {
        let (takes, meaning) = table::short(*letter)?;
        (takes == Takes::Nothing).then_some((*letter, meaning))
    };
    let all: Option<Vec<_>> = letters.iter().map(one).collect();
    let known = str::from_utf8(letters).ok().and_then(|name| table::long(name, 1)).is_some();
    all.filter(|all| all.len() > 1 && !known).map(Vec::into_iter)
}

/// The position of the option's value, the option's meaning, and the value if it is in the same word.
fn option(word: &[u8]) -> (Takes, Meaning, Option<&OsStr>) {
    let dashes = if word.starts_with(b"--") { 2 } else { 1 };
    let rest = &word[dashes..];
    let equals = rest.iter().position(|byte| *byte == b'=');
    let name = str::from_utf8(&rest[..equals.unwrap_or(rest.len())]).unwrap_or_default();
    // One dash before `o` or `l` is `-o` or `-l`, except for the long names of `-l` itself.
    let letter_only =
        dashes == 1 && (name.starts_with('o') || name.starts_with('l') && !name.starts_with("library"));
    if (dashes == 2 || name.len() > 1)
        && !letter_only
        && let Some((takes, meaning)) = table::long(name, dashes)
    {
        let value = equals.map(|at| &rest[at + 1..]);
        // lld has some of its options under such a name, too.
        let for_plugin = value.filter(|_| name == table::PLUGIN_OPTION).and_then(plugin_option);
        return for_plugin.unwrap_or((takes, meaning, value.map(OsStr::from_bytes)));
    }
    let first = (dashes == 1).then(|| rest.first()).flatten();
    match first.and_then(|letter| table::short(*letter)) {
        Some((takes @ (Takes::Value | Takes::Number), meaning)) => {
            (takes, meaning, (rest.len() > 1).then(|| OsStr::from_bytes(&rest[1..])))
        }
        Some((takes, meaning)) if rest.len() == 1 => (takes, meaning, None),
        _ => (Takes::Nothing, Meaning::Other, None),
    }
}

/// The option that lld recognises in an option for another linker's plugin.
fn plugin_option(text: &[u8]) -> Option<(Takes, Meaning, Option<&OsStr>)> {
    let text = str::from_utf8(text).ok()?;
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let (_, meaning) =
        [format!("lto-{name}"), name.to_owned()].iter().find_map(|name| table::long(name, 1))?;
    (meaning != Meaning::Other).then_some((Takes::Joined, meaning, value.map(OsStr::new)))
}

#[cfg(test)]
mod tests;
