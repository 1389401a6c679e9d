//! The command line as clang sees it: response files are opened, the wrapper's own flags are taken out, and
//! each word gets its role: option, value or input.
//!
//! The user's words are passed on unchanged. A response file stays a response file, unless it contains words
//! that are not for clang.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pcce_options::{Error, PREFIX, WrapperFlags};

/// The role of a word of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// An option: it starts with `-`, and is no value of another option.
    Option,
    /// The value of the option before it, as `x` in `-o x`.
    Value,
    /// A file to compile or to link.
    Input,
}

/// One word of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word, without the quotes of a response file.
    pub text: OsString,
    /// Its role.
    pub role: Role,
    /// The index of its argument.
    source: usize,
}

impl Word {
    /// The word's bytes, for comparisons. File names and options need not be UTF-8.
    pub fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// A command line, split into words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arguments {
    pub own: WrapperFlags,
    /// All other words, in order.
    pub words: Vec<Word>,
    /// For each argument, the response file that it names, if clang can read the file as it is.
    response_files: Vec<Option<OsString>>,
}

impl Arguments {
    /// The arguments for clang. `change` returns the replacement of the word with an index; none if the word
    /// is left out.
    pub fn with(&self, change: impl Fn(usize) -> Option<OsString>) -> Vec<OsString> {
        let changed: Vec<Option<OsString>> = (0..self.words.len()).map(change).collect();
        let mut argv = Vec::with_capacity(self.words.len());
        for (source, response_file) in self.response_files.iter().enumerate() {
            let words = || self.words.iter().zip(&changed).filter(|(word, _)| word.source == source);
            match response_file {
                Some(spelled) if words().all(|(word, changed)| changed.as_ref() == Some(&word.text)) => {
                    argv.push(spelled.clone());
                }
                _ => argv.extend(words().filter_map(|(_, changed)| changed.clone())),
            }
        }
        argv
    }

    /// The arguments for clang, unchanged.
    pub fn plain(&self) -> Vec<OsString> {
        self.with(|index| Some(self.words[index].text.clone()))
    }
}

/// Reads a command line (without the program's name). `read_file` returns the content of a response file. If
/// it cannot be read, its name is taken literally, as clang does.
///
/// # Errors
///
/// [`Error::Flag`] for the wrapper's own flags.
/// Clang reports wrong flags of its own.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    read_file: impl Fn(&Path) -> Option<Vec<u8>>,
) -> Result<Arguments, Error> {
    let mut result = Arguments::default();
    let mut texts = Vec::new();
    for (source, argument) in arguments.into_iter().enumerate() {
        let mut opened = Vec::new();
        let is_file = expand(argument.clone(), &read_file, &mut opened, &mut texts, source);
        result.response_files.push(is_file.then_some(argument));
    }

    let mut own = Vec::new();
    let mut value_follows = false;
    let mut only_inputs = false;
    for (mut text, source) in texts {
        let bytes = text.as_bytes();
        let role = if std::mem::take(&mut value_follows) {
            Role::Value
        } else if only_inputs || !bytes.starts_with(b"-") || bytes == b"-" {
            if only_inputs && bytes.starts_with(b"-") && bytes != b"-" {
                text = Path::new(".").join(&text).into_os_string();
                result.response_files[source] = None;
            }
            Role::Input
        } else if bytes == b"--" {
            // Nothing can be added after `--`, and the runtime has to come last. So the words after it are
            // spelled such that they are inputs without it.
            only_inputs = true;
            result.response_files[source] = None;
            continue;
        } else if bytes.starts_with(PREFIX.as_bytes()) {
            own.push(text);
            result.response_files[source] = None;
            continue;
        } else {
            value_follows = takes_value(bytes);
            Role::Option
        };
        result.words.push(Word { text, role, source });
    }
    result.own = WrapperFlags::read(own)?;
    Ok(result)
}

/// Appends the words of `argument`. Returns whether it named a response file. `opened` has the files that are
/// being read: clang reports a file that includes itself.
fn expand(
    argument: OsString,
    read_file: &impl Fn(&Path) -> Option<Vec<u8>>,
    opened: &mut Vec<PathBuf>,
    words: &mut Vec<(OsString, usize)>,
    source: usize,
) -> bool {
    let content = argument.as_bytes().strip_prefix(b"@").and_then(|name| {
        let path = PathBuf::from(OsStr::from_bytes(name));
        let content = if opened.contains(&path) { None } else { read_file(&path) };
        content.map(|content| (path, content))
    });
    let Some((path, content)) = content else {
        words.push((argument, source));
        return false;
    };
    opened.push(path);
    for word in split(&content) {
        expand(word, read_file, opened, words, source);
    }
    opened.pop();
    true
}

/// Splits a response file as clang does, which ignores empty words.
fn split(content: &[u8]) -> impl Iterator<Item = OsString> {
    pcce_linker::command::split_gnu(content).into_iter().filter(|word| !word.is_empty())
}

/// Returns whether the next word is this option's value. Many options also take a joined value (`-Ifoo`), and
/// then the next word is independent.
fn takes_value(option: &[u8]) -> bool {
    option.starts_with(b"-Xarch_")
        || option.starts_with(b"-Xopenmp-target")
        || SEPARATE_VALUES.iter().any(|name| name.as_bytes() == option)
}

/// The options of clang 19's driver that take the next word. They were found by giving each option name two
/// source files and looking which of them remain (`clang -fsyntax-only -ccc-print-phases NAME a.c b.c`), and
/// include those whose value clang hands to the linker.
const SEPARATE_VALUES: &[&str] = &[
    "--analyzer-output",
    "--assert",
    "--classpath",
    "--config",
    "--define-macro",
    "--dyld-prefix",
    "--for-linker",
    "--force-link",
    "--imacros",
    "--include",
    "--include-directory",
    "--include-directory-after",
    "--include-prefix",
    "--include-with-prefix",
    "--include-with-prefix-after",
    "--include-with-prefix-before",
    "--language",
    "--library-directory",
    "--output",
    "--param",
    "--prefix",
    "--resource",
    "--serialize-diagnostics",
    "--std",
    "--sysroot",
    "--undefine-macro",
    "--vfsoverlay",
    "-A",
    "-B",
    "-D",
    "-F",
    "-G",
    "-I",
    "-L",
    "-MF",
    "-MJ",
    "-MQ",
    "-MT",
    "-T",
    "-U",
    "-Xanalyzer",
    "-Xassembler",
    "-Xclang",
    "-Xcuda-fatbinary",
    "-Xcuda-ptxas",
    "-Xlinker",
    "-Xoffload-linker",
    "-Xpreprocessor",
    "-arch",
    "-b",
    "-dumpdir",
    "-e",
    "-fdebug-compilation-dir",
    "-filelist",
    "-fmodules-user-build-path",
    "-framework",
    "-ftrapv-handler",
    "-gen-cdb-fragment-path",
    "-iapinotes-modules",
    "-idirafter",
    "-iframework",
    "-iframeworkwithsysroot",
    "-imacros",
    "-imultilib",
    "-include",
    "-include-pch",
    "-iprefix",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-isystem-after",
    "-ivfsoverlay",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-iwithsysroot",
    "-l",
    "-meabi",
    "-mllvm",
    "-mmlir",
    "-module-dependency-dir",
    "-mthread-model",
    "-o",
    "-resource-dir",
    "-rpath",
    "-serialize-diagnostics",
    "-stdlib++-isystem",
    "-target",
    "-u",
    "-undefined",
    "-vfsoverlay",
    "-working-directory",
    "-x",
    "-z",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_with(arguments: &[&str], files: &[(&str, &str)]) -> Result<Arguments, Error> {
        parse(arguments.iter().map(OsString::from), |path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path)?;
            Some(file.1.as_bytes().to_vec())
        })
    }

    fn passed_on(arguments: &[&str], files: &[(&str, &str)]) -> Vec<OsString> {
        parse_with(arguments, files).unwrap().plain()
    }

    #[test]
    fn own_flags_are_taken_out() {
        let line =
            ["--pcce-mode=module", "-c", "--pcce-verify", "a.c", "--pcce-targets=f,@g", "--pcce-targets=h"];
        let parsed = parse_with(&line, &[]).unwrap();
        assert_eq!(parsed.own.mode, Some(pcce_options::Mode::Module));
        assert!(parsed.own.common.verify);
        assert_eq!(parsed.own.common.targets, ["f", "@g", "h"]);
        assert_eq!(parsed.plain(), ["-c", "a.c"]);
        let error = parse_with(&["a.c", "--pcce-speed"], &[]).unwrap_err().to_string();
        assert!(error.contains("--pcce-speed"), "{error}");
    }

    #[test]
    fn a_value_is_no_flag_of_ours() {
        let parsed = parse_with(&["-o", "--pcce-mode=module", "-Xlinker", "--pcce-x", "a.c"], &[]).unwrap();
        assert_eq!(parsed.own, WrapperFlags::default());
        let roles: Vec<_> = parsed.words.iter().map(|word| word.role).collect();
        assert_eq!(roles, [Role::Option, Role::Value, Role::Option, Role::Value, Role::Input]);
    }

    #[test]
    fn joined_values_leave_the_next_word_alone() {
        let parsed = parse_with(&["-Ifoo", "a.c", "-lm", "-", "-MFx", "b.c"], &[]).unwrap();
        let inputs: Vec<_> =
            parsed.words.iter().filter(|w| w.role == Role::Input).map(|w| w.text.clone()).collect();
        assert_eq!(inputs, ["a.c", "-", "b.c"]);
    }

    #[test]
    fn response_files_stay_unless_they_hold_own_flags() {
        let files = [("plain", "-c 'a b.c'"), ("own", "-c --pcce-verify x\\ y.c @plain")];
        assert_eq!(passed_on(&["@plain", "-O2"], &files), ["@plain", "-O2"]);
        assert_eq!(passed_on(&["@own", "-O2"], &files), ["-c", "x y.c", "-c", "a b.c", "-O2"]);
        assert!(parse_with(&["@own"], &files).unwrap().own.common.verify);
    }

    #[test]
    fn an_option_and_its_value_may_be_in_different_files() {
        let parsed = parse_with(&["@a", "@b"], &[("a", "-o"), ("b", "--pcce-x")]).unwrap();
        assert_eq!(parsed.plain(), ["@a", "@b"]);
    }

    #[test]
    fn unreadable_and_recursive_response_files_are_left_to_clang() {
        assert_eq!(passed_on(&["@none"], &[]), ["@none"]);
        assert_eq!(passed_on(&["@loop"], &[("loop", "-c @loop")]), ["@loop"]);
    }

    #[test]
    fn dropping_a_word_opens_its_response_file_only() {
        let parsed = parse_with(&["@a", "@b"], &[("a", "-O1 -g"), ("b", "-O2 -s")]).unwrap();
        assert_eq!(
            parsed.with(|index| Some(parsed.words[index].text.clone()).filter(|word| word != "-g")),
            ["-O1", "@b"]
        );
    }

    #[test]
    fn inputs_after_a_double_dash_are_inputs() {
        assert_eq!(passed_on(&["-c", "--", "a.c", "-b.c", "-"], &[]), ["-c", "a.c", "./-b.c", "-"]);
        assert_eq!(passed_on(&["-o", "--", "a.c"], &[]), ["-o", "--", "a.c"]);
        assert_eq!(passed_on(&["--", "--pcce-x"], &[]), ["./--pcce-x"]);
    }

    #[test]
    fn response_files_are_split_as_gnu_does() {
        let split = |text: &str| split(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(split("a  b\n\tc\r\n"), ["a", "b", "c"]);
        assert_eq!(split(r#"-D"x y"'z"'w q"#), [r#"-Dx yz"w"#, "q"]);
        assert_eq!(split(r#"a\ b "c\"d" 'e\'f' \\"#), ["a b", r#"c"d"#, "e'f", r"\"]);
        assert_eq!(split(r#""" a ''"#), ["a"]);
        assert_eq!(split("\u{feff}-c"), ["-c"]);
        assert_eq!(split("'open end"), ["open end"]);
    }
}
