//! The meaning of a clang command line, as far as the wrapper's decisions depend on it. Nothing here knows
//! about instrumentation.

mod kinds;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pcce_linker::command::Command as LinkerCommand;

use crate::args::{Role, Word};

/// The kind of clang's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// Nothing: it prints something about itself, or complains about missing inputs.
    Information,
    /// Something without machine code: preprocessed text, dependencies, diagnostics, precompiled headers.
    NoCode,
    /// Assembler text (`-S`), or the text of LLVM's IR.
    Assembly,
    /// Object files (`-c`), or LLVM's bitcode.
    Object,
    /// The output of a link.
    Image,
}

/// The user's choice of link-time optimisation; the last word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserLto {
    /// Nothing.
    Unset,
    /// `-flto`, or `-flto=` of any kind but the next.
    Full,
    /// `-flto=thin`.
    Thin,
    /// `-fno-lto`.
    Off,
}

/// The user's choice of a linker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserLinker {
    /// None: clang's default.
    Unset,
    /// Some lld: the file that clang looks for.
    Lld(String),
    /// Another linker: the file that clang looks for.
    Other(String),
}

/// The meaning of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The kind of output.
    pub product: Product,
    /// Something goes through the preprocessor, so header folders matter.
    pub preprocesses: bool,
    /// Something goes through LLVM's optimiser and code generator: sources or LLVM's
    /// IR, but no assembler text and no headers.
    pub compiles: bool,
    /// `-emit-llvm`.
    pub emits_llvm: bool,
    /// Some inputs are LLVM's IR, to be compiled or linked.
    pub reads_llvm: bool,
    /// The user's `-flto`.
    pub lto: UserLto,
    /// Options that undo those which clang accepts only together with `-flto`.
    pub needs_lto: Vec<&'static str>,
    /// Thread-local variables are requested from the compiler's runtime library.
    pub emulated_tls: bool,
    /// The user decided whether objects have bitcode beside machine code or bitcode alone, or wants a copy of
    /// the bitcode in the object, which clang makes only of bitcode alone.
    pub fat_objects: bool,
    /// The link makes a shared library.
    pub shared: bool,
    /// The object contains bitcode, too.
    pub embeds_bitcode: bool,
    /// Stacks grow in pieces.
    pub splits_stack: bool,
    /// Debug information goes into files of its own.
    pub split_dwarf: bool,
    /// The link makes a program that no shared library can join.
    pub r#static: bool,
    /// The link makes a program at fixed addresses according to the command line. The compiler's default is
    /// unknown.
    pub no_pie: bool,
    /// The link makes an object file (`-r`).
    pub relocatable: bool,
    /// The linker folds equal functions.
    pub folds: bool,
    /// The user said that version scripts may name defined symbols only.
    pub no_undefined_version: bool,
    /// The user chose a kind of build id, or none.
    pub build_id: bool,
    pub linker: UserLinker,
    /// The option that makes clang link an allocator of its own, if there is one.
    pub allocator: Option<String>,
    /// The option because of which the program is linked, or starts, without the C library, if there is one.
    pub without_libc: Option<&'static str>,
}

impl Command {
    /// Reads the words of a command line.
    pub fn of(words: &[Word]) -> Self {
        let inputs = kinds::Inputs::of(words);
        let options: Vec<&[u8]> = options(words).collect();
        let given = |names: &[&str]| options.iter().any(|o| names.iter().any(|n| n.as_bytes() == *o));
        let linker: Vec<&[u8]> = linker_arguments(words);
        let for_linker =
            LinkerCommand::of_words(linker.iter().map(|word| OsStr::from_bytes(word).to_owned()));
        let to_linker = |names: &[&str]| linker.iter().any(|a| names.iter().any(|n| n.as_bytes() == *a));

        // As clang decides: of the requested stages, the earliest is the last one that is done.
        let product = if options.iter().any(|o| is_query(o)) || !inputs.any {
            Product::Information
        } else if given(NO_CODE) || inputs.only_headers {
            Product::NoCode
        } else if given(&["-S", "--assemble"]) {
            Product::Assembly
        } else if given(&["-c", "--compile"]) {
            Product::Object
        } else {
            Product::Image
        };
        let lto = options.iter().rev().find_map(|option| match *option {
            b"-fno-lto" => Some(UserLto::Off),
            b"-flto=thin" => Some(UserLto::Thin),
            other => (other == b"-flto" || other.starts_with(b"-flto=")).then_some(UserLto::Full),
        });
        let pie = options.iter().rev().find_map(|option| match *option {
            b"-pie" => Some(true),
            b"-no-pie" | b"-nopie" => Some(false),
            _ => None,
        });
        // As clang decides: `-static` is stronger than `-pie`, and `-static-pie` than either.
        let no_pie = !given(&["-static-pie"]) && (given(&["-static", "--static"]) || pie == Some(false));
        Command {
            product,
            preprocesses: inputs.preprocessed,
            compiles: inputs.compiled,
            emits_llvm: given(&["-emit-llvm"]),
            reads_llvm: inputs.llvm,
            needs_lto: NEEDS_LTO
                .iter()
                .filter(|(on, off)| last(&options, on, off))
                .map(|(_, off)| *off)
                .collect(),
            emulated_tls: last(&options, "-femulated-tls", "-fno-emulated-tls"),
            lto: lto.unwrap_or(UserLto::Unset),
            fat_objects: given(&["-ffat-lto-objects", "-fno-fat-lto-objects"])
                || options.iter().any(embeds_bitcode),
            shared: given(&["-shared", "--shared"]) || for_linker.is_library(),
            embeds_bitcode: options
                .iter()
                .rev()
                .find(|option| option.starts_with(b"-fembed-bitcode"))
                .is_some_and(|option| !option.ends_with(b"off") && !option.ends_with(b"marker")),
            splits_stack: last(&options, "-fsplit-stack", "-fno-split-stack"),
            split_dwarf: splits_dwarf(options.iter().copied()),
            r#static: given(&["-static", "--static", "-static-pie"]),
            no_pie: no_pie || for_linker.is_at_fixed_addresses(),
            relocatable: given(&["-r"]) || for_linker.is_partial(),
            folds: for_linker.folds(),
            no_undefined_version: to_linker(&["--no-undefined-version", "-no-undefined-version"]),
            build_id: linker.iter().any(|a| a.starts_with(b"--build-id") || a.starts_with(b"-build-id")),
            linker: user_linker(&options),
            allocator: allocator(&options),
            without_libc: without_libc(words, &linker),
        }
    }
}

/// Returns whether options ask for debug information in files of its own.
pub fn splits_dwarf<'a>(options: impl DoubleEndedIterator<Item = &'a [u8]>) -> bool {
    let mut asked = options.rev().filter(|o| o.starts_with(b"-gsplit-dwarf") || *o == b"-gno-split-dwarf");
    asked.next().is_some_and(|option| option != b"-gno-split-dwarf")
}

/// Options that clang takes only together with `-flto`, and their opposites.
const NEEDS_LTO: [(&str, &str); 2] = [
    ("-fwhole-program-vtables", "-fno-whole-program-vtables"),
    ("-fvirtual-function-elimination", "-fno-virtual-function-elimination"),
];

/// Returns whether an option puts bitcode into objects otherwise than LTO does.
fn embeds_bitcode(option: &&[u8]) -> bool {
    option.starts_with(b"-fembed-bitcode") && *option != b"-fembed-bitcode=off"
}

/// Returns whether the last of an option and its opposite is the option.
fn last(options: &[&[u8]], on: &str, off: &str) -> bool {
    options.iter().rev().find(|o| **o == on.as_bytes() || **o == off.as_bytes()) == Some(&on.as_bytes())
}

/// Options with which clang stops before it generates code.
const NO_CODE: &[&str] = &[
    "-E",
    "--preprocess",
    "-M",
    "--dependencies",
    "-MM",
    "--user-dependencies",
    "-fsyntax-only",
    "--analyze",
    "--precompile",
    "-emit-ast",
    "-verify-pch",
    "-module-file-info",
    "-extract-api",
    "--migrate",
    "-rewrite-objc",
    "-rewrite-legacy-objc",
];

/// Options that make clang print something and do nothing else.
fn is_query(option: &[u8]) -> bool {
    matches!(
        option,
        b"--version" | b"-help" | b"--help" | b"--help-hidden" | b"-dumpmachine" | b"-dumpversion"
    ) || option.starts_with(b"-print-")
        || option.starts_with(b"--print-")
        || option.starts_with(b"--autocomplete=")
}

fn options(words: &[Word]) -> impl Iterator<Item = &[u8]> {
    words.iter().filter(|word| word.role == Role::Option).map(Word::bytes)
}

/// The arguments that the word at `index` hands to the linker, and the text before them. Commas separate
/// arguments.
pub fn handed_on(words: &[Word], index: usize) -> Option<(&'static str, Vec<&[u8]>)> {
    let word = &words[index];
    match word.role {
        Role::Value => matches!(words[index - 1].bytes(), b"-Xlinker" | b"--for-linker")
            .then(|| ("", vec![word.bytes()])),
        Role::Option => match word.bytes().strip_prefix(b"-Wl,") {
            Some(list) => Some(("-Wl,", list.split(|&byte| byte == b',').collect())),
            None => Some(("--for-linker=", vec![word.bytes().strip_prefix(b"--for-linker=")?])),
        },
        Role::Input => None,
    }
}

/// The arguments that clang hands to the linker unchanged.
pub fn linker_arguments(words: &[Word]) -> Vec<&[u8]> {
    (0..words.len())
        .filter_map(|index| handed_on(words, index))
        .flat_map(|(_, arguments)| arguments)
        .collect()
}

/// Sanitizers that bring an allocator.
const ALLOCATORS: [&[u8]; 6] = [b"address", b"hwaddress", b"leak", b"memory", b"thread", b"scudo"];

/// The option for such a sanitizer that is on, or `-fmemory-profile`, which also brings an allocator.
fn allocator(options: &[&[u8]]) -> Option<String> {
    let names = |list: &[u8], name: &[u8]| list.split(|&byte| byte == b',').any(|n| n == name || n == b"all");
    let chosen = |name: &[u8]| {
        let last = options.iter().rev().find_map(|option| {
            let on = option.strip_prefix(b"-fsanitize=").map(|list| (true, list));
            let (on, list) =
                on.or_else(|| option.strip_prefix(b"-fno-sanitize=").map(|list| (false, list)))?;
            names(list, name).then_some(on)
        });
        last == Some(true)
    };
    let sanitizer = ALLOCATORS.iter().find(|name| chosen(name));
    let text = |name: &[u8]| format!("-fsanitize={}", String::from_utf8_lossy(name));
    sanitizer.map(|name| text(name)).or_else(|| {
        let profile = options
            .iter()
            .rev()
            .find(|o| o.starts_with(b"-fmemory-profile") || **o == b"-fno-memory-profile");
        profile
            .filter(|option| option.starts_with(b"-fmemory-profile"))
            .map(|_| "-fmemory-profile".to_owned())
    })
}

/// The option because of which a program has no C library, or a static one does not run its startup code.
fn without_libc(words: &[Word], for_linker: &[&[u8]]) -> Option<&'static str> {
    let options: Vec<&[u8]> = options(words).collect();
    let given = |name: &str| options.contains(&name.as_bytes());
    let names = |name: &str| {
        let file = |path: &[u8]| {
            path.rsplit(|&byte| byte == b'/').next().is_some_and(|f| f.starts_with(name.as_bytes()))
        };
        let mut values = words.iter().filter(|word| word.role != Role::Option).map(Word::bytes);
        values.any(file) || for_linker.iter().any(|word| file(word))
    };
    let libc = given("-lc")
        || for_linker.contains(&&b"-lc"[..])
        || options.iter().any(|option| option.starts_with(b"-l:libc."))
        || words.windows(2).any(|two| two[0].bytes() == b"-l" && two[1].bytes() == b"c")
        || names("libc.");
    if !libc
        && let Some(name) = ["-nostdlib", "-nodefaultlibs", "-nolibc"].into_iter().find(|name| given(name))
    {
        return Some(name);
    }
    let is_static = given("-static") || given("--static") || given("-static-pie");
    let starts = ["crt1.o", "rcrt1.o", "gcrt1.o", "grcrt1.o", "Scrt1.o"].into_iter().any(names);
    let unstarted = is_static && !starts;
    ["-nostartfiles", "-nostdlib"].into_iter().find(|name| unstarted && given(name))
}

fn user_linker(options: &[&[u8]]) -> UserLinker {
    let last = |prefix: &[u8]| options.iter().rev().find_map(|option| option.strip_prefix(prefix));
    let text = |name| String::from_utf8_lossy(name).into_owned();
    let file = match (last(LINKER_PATH), last(LINKER_NAME)) {
        (Some(path), _) => text(path),
        (None, Some(name)) if name.starts_with(b"/") => text(name),
        (None, Some(name)) => format!("ld.{}", text(name)),
        (None, None) => return UserLinker::Unset,
    };
    let name = Path::new(&file).file_name().unwrap_or_default().as_bytes();
    let name = name.strip_prefix(b"ld.").unwrap_or(name);
    if name == b"lld" || name.starts_with(b"lld-") { UserLinker::Lld(file) } else { UserLinker::Other(file) }
}

const LINKER_NAME: &[u8] = b"-fuse-ld=";
const LINKER_PATH: &[u8] = b"--ld-path=";

/// Returns whether this word chooses a linker.
pub fn chooses_linker(word: &Word) -> bool {
    word.role == Role::Option
        && (word.bytes().starts_with(LINKER_NAME) || word.bytes().starts_with(LINKER_PATH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    fn command(line: &str) -> Command {
        let words = line.split_whitespace().map(Into::into);
        Command::of(&args::parse(words, |_| None).unwrap().words)
    }

    #[test]
    fn the_product_is_what_clang_makes() {
        use Product::*;
        for (line, product) in [
            ("", Information),
            ("-v", Information),
            ("-O2 -pie -L/x", Information),
            ("--version a.c", Information),
            ("-dumpmachine", Information),
            ("-print-search-dirs", Information),
            ("-print-prog-name=ld", Information),
            ("-o x -I dir -include a.h -x c -MF a.d", Information),
            ("-E a.c", NoCode),
            ("-E -", NoCode),
            ("-dM -E -x c /dev/null", NoCode),
            ("-M a.c", NoCode),
            ("-MM -MF a.d a.c", NoCode),
            ("-fsyntax-only -S a.c", NoCode),
            ("-E -c a.c", NoCode),
            ("a.h", NoCode),
            ("-c a.hpp -o a.pch", NoCode),
            ("-x c-header a.c -o a.gch", NoCode),
            ("-xc++-header -c a.c", NoCode),
            ("-S a.c", Assembly),
            ("-c -S a.c", Assembly),
            ("-S -emit-llvm a.c", Assembly),
            ("-c a.c b.c", Object),
            ("-c a.s", Object),
            ("-MD -MF a.d -c a.c", Object),
            ("-MMD -MP -c -o /dev/null a.c", Object),
            ("-c -x c -", Object),
            ("a.c", Image),
            ("a.c a.h", Image),
            ("a.o", Image),
            ("-v a.o", Image),
            ("-### a.c", Image),
            ("-lm", Image),
            ("-Wl,--version", Image),
            ("-Xlinker -v", Image),
            ("-x c -", Image),
            ("-MD a.c", Image),
        ] {
            assert_eq!(command(line).product, product, "{line}");
        }
    }

    #[test]
    fn inputs_are_told_apart() {
        for (line, preprocesses, compiles) in [
            ("a.c", true, true),
            ("a.o b.a libc.so.6", false, false),
            ("-c a.s", true, false),
            ("-c a.S", true, false),
            ("-c -x assembler-with-cpp a.c", true, false),
            ("-c a.ll", true, true),
            ("-c foo.unknown", false, false),
            ("-c -x c foo.unknown", true, true),
            ("-x c a.unknown -x none b.o", true, true),
            ("-x none a.o", false, false),
            ("--language=c++ x", true, true),
            ("-include a.c b.o", false, false),
        ] {
            let command = command(line);
            assert_eq!((command.preprocesses, command.compiles), (preprocesses, compiles), "{line}");
        }
    }

    #[test]
    fn the_last_word_on_lto_counts() {
        for (line, lto) in [
            ("a.c", UserLto::Unset),
            ("-flto a.c", UserLto::Full),
            ("-flto=thin a.c", UserLto::Thin),
            ("-flto -fno-lto a.c", UserLto::Off),
            ("-fno-lto -flto=full a.c", UserLto::Full),
            ("-flto-jobs=2 a.c", UserLto::Unset),
        ] {
            assert_eq!(command(line).lto, lto, "{line}");
        }
    }

    #[test]
    fn linker_options_are_seen_in_every_spelling() {
        for line in [
            "-r a.o",
            "-Wl,-r a.o",
            "-Xlinker -r a.o",
            "-Wl,-x,--relocatable a.o",
            "--for-linker=-r a.o",
            "-Wl,-i a.o",
            "-Wl,-Ur a.o",
            "-Xlinker -i a.o",
            "-Wl,-relocatable a.o",
            "-Wl,--reloc a.o",
            "-Wl,-rs a.o",
            "-Wl,-d,-r a.o",
        ] {
            assert!(command(line).relocatable, "{line}");
        }
        for line in
            ["-Wl,-soname,-r a.o", "-Xlinker -o -Xlinker -r a.o", "-Wl,-init,x a.o", "-Wl,-rpath,-i a.o"]
        {
            assert!(!command(line).relocatable, "{line}");
        }
        for line in ["-shared a.o", "--shared a.o", "-Wl,-shared a.o", "-Wl,-Bshareable a.o", "-Wl,-G a.o"] {
            assert!(command(line).shared, "{line}");
        }
        for line in ["-Wl,--build-id=none a.o", "-Wl,-build-id a.o", "-Xlinker --build-id=sha1 a.o"] {
            assert!(command(line).build_id, "{line}");
        }
        assert!(command("-static a.o").r#static && command("-static-pie a.o").r#static);
        for (line, no_pie) in [
            ("a.o", false),
            ("-pie a.o", false),
            ("-no-pie a.o", true),
            ("-no-pie -pie a.o", false),
            ("-static -pie a.o", true),
            ("-static -static-pie a.o", false),
            ("-Wl,-no-pie a.o", true),
        ] {
            assert_eq!(command(line).no_pie, no_pie, "{line}");
        }
        let plain = command("-o -shared -L -r -I --build-id -rdynamic a.o");
        assert!(!plain.shared && !plain.r#static && !plain.relocatable && !plain.build_id);
    }

    #[test]
    fn the_linker_is_the_one_clang_would_take() {
        let other = |file: &str| UserLinker::Other(file.to_owned());
        let lld = |file: &str| UserLinker::Lld(file.to_owned());
        for (line, linker) in [
            ("a.o", UserLinker::Unset),
            ("-fuse-ld=lld a.o", lld("ld.lld")),
            ("-fuse-ld=bfd -fuse-ld=lld a.o", lld("ld.lld")),
            ("-fuse-ld=lld-19 a.o", lld("ld.lld-19")),
            ("-fuse-ld=/usr/bin/ld.lld-19 a.o", lld("/usr/bin/ld.lld-19")),
            ("--ld-path=/opt/ld.lld -fuse-ld=gold a.o", lld("/opt/ld.lld")),
            ("-fuse-ld=gold a.o", other("ld.gold")),
            ("--ld-path=gold a.o", other("gold")),
            ("-fuse-ld=lld --ld-path=/usr/bin/ld.bfd a.o", other("/usr/bin/ld.bfd")),
        ] {
            assert_eq!(command(line).linker, linker, "{line}");
        }
    }
}
