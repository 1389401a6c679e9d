//! The processing of each input of a command line, by `-x` and by file name endings.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::args::{Role, Word};

/// Properties of all inputs together.
pub struct Inputs {
    /// There are some.
    pub any: bool,
    /// Some go through the preprocessor.
    pub preprocessed: bool,
    /// Some go through LLVM's optimiser and code generator.
    pub compiled: bool,
    /// Some are LLVM's IR.
    pub llvm: bool,
    /// All are headers.
    pub only_headers: bool,
}

/// The processing of an input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Source,
    Llvm,
    Header,
    /// Assembler text that is preprocessed, or not.
    Assembler,
    /// Object files, archives, linker scripts and linker options.
    ForLinker,
}

impl Inputs {
    /// Reads the words of a command line.
    pub fn of(words: &[Word]) -> Self {
        let mut kinds = Vec::new();
        // The language of `-x`, which holds from there on.
        let mut language: Option<&[u8]> = None;
        for (index, word) in words.iter().enumerate() {
            let bytes = word.bytes();
            match word.role {
                Role::Input => kinds.push(language.map_or_else(|| kind_of_file(bytes), kind_of_language)),
                Role::Value if matches!(words[index - 1].bytes(), b"-x" | b"--language") => {
                    language = Some(bytes).filter(|name| *name != b"none");
                }
                Role::Value => {}
                Role::Option => {
                    let joined = bytes.strip_prefix(b"-x").or_else(|| bytes.strip_prefix(b"--language="));
                    if let Some(name) = joined.filter(|name| !name.is_empty()) {
                        language = Some(name).filter(|name| *name != b"none");
                    } else if is_linker_input(bytes) {
                        kinds.push(Kind::ForLinker);
                    }
                }
            }
        }
        let has = |kind| kinds.contains(&kind);
        Inputs {
            any: !kinds.is_empty(),
            preprocessed: kinds.iter().any(|kind| *kind != Kind::ForLinker),
            compiled: has(Kind::Source) || has(Kind::Llvm),
            llvm: has(Kind::Llvm),
            only_headers: has(Kind::Header) && kinds.iter().all(|kind| *kind == Kind::Header),
        }
    }
}

/// Options that clang counts as inputs: with only such an option, it runs the linker.
fn is_linker_input(option: &[u8]) -> bool {
    option.starts_with(b"-l")
        || option.starts_with(b"-Wl,")
        || option.starts_with(b"--for-linker=")
        || matches!(
            option,
            b"-Xlinker" | b"--for-linker" | b"-z" | b"-e" | b"-b" | b"-rpath" | b"-framework" | b"-filelist"
        )
}

fn kind_of_language(name: &[u8]) -> Kind {
    if name.starts_with(b"assembler") {
        Kind::Assembler
    } else if name.windows(b"-header".len()).any(|part| part == b"-header") {
        Kind::Header
    } else if name == b"ir" {
        Kind::Llvm
    } else {
        Kind::Source
    }
}

/// Decides by the ending, as clang 19's `lookupTypeForExtension`. Unknown files are for the linker.
fn kind_of_file(name: &[u8]) -> Kind {
    if name == b"-" {
        return Kind::Source;
    }
    let extension = Path::new(OsStr::from_bytes(name)).extension().unwrap_or_default();
    match extension.as_bytes() {
        b"h" | b"H" | b"hh" | b"hpp" | b"hxx" => Kind::Header,
        b"s" | b"S" | b"asm" => Kind::Assembler,
        b"c" | b"i" | b"C" | b"cc" | b"CC" | b"cp" | b"cpp" | b"CPP" | b"cxx" | b"CXX" | b"c++" | b"C++"
        | b"ii" | b"cppm" | b"ccm" | b"cxxm" | b"c++m" | b"ixx" | b"iim" | b"pcm" | b"ast" | b"pch"
        | b"gch" | b"m" | b"mi" | b"M" | b"mm" | b"mii" | b"cl" | b"clcpp" | b"cu" | b"cui" | b"hip" => {
            Kind::Source
        }
        b"bc" | b"ll" => Kind::Llvm,
        _ => Kind::ForLinker,
    }
}
