//! The command that compiled an object, as the object records it for code generation at the link: the words
//! that code generation depends on.
//!
//! All words stay, except those that name inputs and outputs, or belong to the preprocessor and the linker
//! alone. For code generation, clang gets these words with the bitcode as input, and treats them as it did
//! for the source.

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::args::{Role, Word};
use crate::command::splits_dwarf;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The compiler's path, absolute if it is known.
    pub compiler: String,
    /// The major version of its LLVM.
    pub llvm: u32,
    /// The words for code generation.
    pub words: Vec<String>,
    /// The options of the pass ([`pcce_options::VARIABLE`]).
    pub options: String,
    /// The working directory of the compiler.
    pub folder: String,
    /// The object file, as the command names it. It tells equal sources in two objects apart.
    pub output: String,
}

/// Options with a value in the next word that code generation ignores.
const WITH_VALUE: [&[u8]; 25] = [
    b"-o",
    b"-dumpdir",
    b"-I",
    b"-D",
    b"-U",
    b"-include",
    b"-imacros",
    b"-isystem",
    b"-iquote",
    b"-idirafter",
    b"-iprefix",
    b"-iwithprefix",
    b"-iwithprefixbefore",
    b"-isysroot",
    b"-include-pch",
    b"-MF",
    b"-MT",
    b"-MQ",
    b"-MJ",
    b"-L",
    b"-l",
    b"-x",
    b"-Xlinker",
    b"-Xpreprocessor",
    b"-T",
];

/// Options that code generation ignores.
const ALONE: [&[u8]; 19] = [
    b"-c",
    b"-S",
    b"-E",
    b"-M",
    b"-MM",
    b"-MD",
    b"-MMD",
    b"-MG",
    b"-MP",
    b"-MV",
    b"-v",
    b"-###",
    b"-shared",
    b"-static",
    b"-pipe",
    b"-save-temps",
    b"-ftime-trace",
    b"-Winvalid-pch",
    b"-r",
];

/// Prefixes of further options that code generation ignores.
const BEGINNINGS: [&[u8]; 16] = [
    b"-o",
    b"-I",
    b"-D",
    b"-U",
    b"-isystem",
    b"-iquote",
    b"-MF",
    b"-MT",
    b"-MQ",
    b"-MJ",
    b"-L",
    b"-l",
    b"-x",
    b"-Wl,",
    b"-Wp,",
    b"-save-temps=",
];

/// Records the command `words` of a compiler, and the version of its LLVM. `options` are those of the pass.
pub fn record(
    words: &[Word],
    compiler: &Path,
    llvm: u32,
    options: &str,
    folder: &Path,
    output: &Path,
) -> Recorded {
    let mut kept: Vec<String> = Vec::new();
    let mut drops_value = false;
    for word in words {
        let bytes = word.bytes();
        match word.role {
            Role::Input => continue,
            Role::Value if drops_value => continue,
            Role::Value => {}
            Role::Option => {
                drops_value = WITH_VALUE.contains(&bytes);
                let drops = drops_value
                    || ALONE.contains(&bytes)
                    || BEGINNINGS.iter().any(|beginning| bytes.starts_with(beginning));
                if drops {
                    continue;
                }
            }
        }
        kept.push(word.text.to_string_lossy().into_owned());
    }
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Recorded {
        compiler: text(compiler),
        llvm,
        words: kept,
        options: options.to_owned(),
        folder: text(folder),
        output: text(output),
    }
}

impl Recorded {
    /// The words that say for which machine the module was compiled.
    pub fn target(&self) -> impl Iterator<Item = &str> {
        let is_value = |at: usize| at > 0 && self.words[at - 1] == "-target";
        let words = self.words.iter().enumerate();
        let named = words
            .filter(move |(at, word)| word.starts_with("--target=") || *word == "-target" || is_value(*at));
        named.map(|(_, word)| &**word)
    }

    /// The arguments with which clang makes an object of bitcode. `plugin` is the pass.
    pub fn arguments(&self, bitcode: &Path, object: &Path, plugin: &Path) -> Vec<OsString> {
        // The working directory may be gone, and is recorded in the command.
        let folder = OsString::from(format!("-ffile-compilation-dir={}", self.folder));
        let mut arguments: Vec<OsString> = [folder].into();
        arguments.extend(self.words.iter().map(OsString::from));
        // Debug information goes into a file of its own, even if the compilation was to put it into the
        // object.
        if splits_dwarf(self.words.iter().map(String::as_bytes)) {
            arguments.push("-gsplit-dwarf=split".into());
        }
        // The programs that share a trace have their functions at the same addresses, whatever their lengths.
        if pcce_options::PassOptions::read([&*self.options])
            .is_ok_and(|options| options.common.trace.is_some())
        {
            arguments.push("-ffunction-sections".into());
        }
        // After the passes on IR, only the pass itself runs.
        arguments.extend(
            ["-Qunused-arguments", "-w", "-Xclang", "-disable-llvm-passes", "-fverify-intermediate-code"]
                .map(Into::into),
        );
        let mut load = OsString::from("-fpass-plugin=");
        load.push(plugin);
        arguments.push(load);
        arguments.extend(["-c", "-x", "ir"].map(Into::into));
        arguments.push(bitcode.into());
        arguments.push("-o".into());
        arguments.push(object.into());
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn words_of_code_generation_stay() {
        for (line, kept) in [
            ("-O2 -g -c a.c -o a.o -Iinc -I inc -DX=1 -MD -MF a.d", "-O2 -g"),
            (
                "-fPIC -mcmodel=large -mllvm -enable-x -Wa,--compress -x c -",
                "-fPIC -mcmodel=large -mllvm -enable-x -Wa,--compress",
            ),
            ("-std=c++17 -include a.h -Wall -ldl -L /x -Wl,-z,now a.cc b.o", "-std=c++17 -Wall"),
            (
                "-Xclang -O3 -target x86_64-linux-gnu -march=native",
                "-Xclang -O3 -target x86_64-linux-gnu -march=native",
            ),
        ] {
            let arguments = args::parse(line.split(' ').map(Into::into), |_| None).unwrap();
            let recorded =
                record(&arguments.words, Path::new("clang"), 19, "", Path::new("/"), Path::new("a.o"));
            assert_eq!(recorded.words.join(" "), kept, "{line}");
        }
    }
}
