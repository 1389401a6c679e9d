//! Compares the code generated from the bitcode in an object with the code that the plain compiler makes from the
//! source.
//!
//! Unchanged bitcode is compiled again with the options that the object keeps. All instructions, the data among them,
//! and the relocations must be those of the plain object.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionKind};

use crate::machine::CODE_GENERATION;
use crate::{artifact, checked, llvm};

/// Sets of flags that code generation depends on, words separated by blanks.
pub const FLAGS: [&str; 40] = [
    "-O0",
    "-Og",
    "-O1",
    "-O1 -fno-inline",
    "-O2",
    "-O3",
    "-Os",
    "-Oz",
    "-O2 -g",
    "-O2 -gdwarf-4 -gz",
    "-O2 -fPIC",
    "-O2 -fno-pic",
    "-O2 -fPIC -fvisibility=hidden",
    "-O2 -fPIC -fno-semantic-interposition",
    "-O2 -fPIC -fno-plt",
    "-O2 -fPIC -ftls-model=initial-exec",
    "-O2 -ffunction-sections -fdata-sections",
    CODE_GENERATION[0],
    "-O2 -fstack-protector-all",
    "-O2 -fstack-clash-protection",
    "-O2 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer",
    CODE_GENERATION[1],
    CODE_GENERATION[2],
    CODE_GENERATION[3],
    CODE_GENERATION[4],
    CODE_GENERATION[5],
    "-O2 -mspeculative-load-hardening",
    CODE_GENERATION[6],
    CODE_GENERATION[7],
    "-O2 -ffast-math",
    "-O2 -ftrivial-auto-var-init=pattern -fzero-call-used-regs=used",
    "-O2 -fno-unwind-tables -fno-asynchronous-unwind-tables",
    "-O2 -fwrapv -fno-strict-aliasing -fno-jump-tables",
    "-O2 -fpatchable-function-entry=4",
    "-O2 -pg",
    CODE_GENERATION[8],
    "-O2 -mllvm -enable-machine-outliner=always",
    "-O2 -fsanitize=undefined",
    "-O1 -fsanitize=address",
    "-O2 -fprofile-instr-generate -fcoverage-mapping",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Same,
    Differs(String),
    /// The plain compiler refuses the words.
    NotCompiled,
}

/// Compares the code of one source.
///
/// `compiler` is `clang` or `clang++`, `words` are its arguments except for `-c` and an output. The compiler runs in
/// `folder`; the objects are written into `scratch`, a folder of the caller's.
///
/// # Errors
/// If the wrapper or the second code generation fails, or a file cannot be written.
pub fn compare(compiler: &str, words: &[OsString], folder: &Path, scratch: &Path) -> Result<Outcome> {
    let place = |name: &str| scratch.join(name);
    let run = |program: &Path, extra: &[OsString], output: &Path| -> std::io::Result<Output> {
        let mut clang = Command::new(program);
        clang.args(extra).args(["-w", "-c", "-o"]).arg(output);
        clang.current_dir(folder).env_remove("PCCE_OPTIONS").output()
    };
    let plain = run(&llvm(compiler), words, &place("plain.o")).context("clang")?;
    if !plain.status.success() {
        return Ok(Outcome::NotCompiled);
    }
    let own: Vec<OsString> = ["--pcce-mode=link".into()].into_iter().chain(words.to_vec()).collect();
    checked(compiler, run(&artifact(&format!("pcce-{compiler}")), &own, &place("skeleton.o")))?;
    for section in ["bitcode", "command"] {
        let mut objcopy = Command::new(llvm("llvm-objcopy"));
        let dump = format!("--dump-section=.pcce.{section}={}", place(section).display());
        checked("objcopy", objcopy.arg(dump).arg(place("skeleton.o")).arg("/dev/null").output())?;
    }
    let recorded: serde_json::Value = serde_json::from_slice(&fs::read(place("command"))?)?;
    let again = recorded["compiler"].as_str().context("the object names no compiler")?;
    let kept = recorded["words"].as_array().context("the object has no words")?;
    let mut kept: Vec<OsString> = kept.iter().filter_map(|word| word.as_str()).map(Into::into).collect();
    kept.extend(["-Qunused-arguments", "-Xclang", "-disable-llvm-passes", "-x", "ir"].map(Into::into));
    kept.push(place("bitcode").into());
    checked("generating again", run(Path::new(again), &kept, &place("again.o")))?;
    let (plain, again) = (code(&place("plain.o"))?, code(&place("again.o"))?);
    Ok(match plain.iter().zip(&again).find(|(plain, again)| plain != again) {
        Some((plain, again)) => Outcome::Differs(first_difference(plain, again)),
        None if plain.len() != again.len() => {
            Outcome::Differs(format!("{} sections of code, and {}", plain.len(), again.len()))
        }
        None => Outcome::Same,
    })
}

#[derive(PartialEq, Eq)]
struct Code {
    name: String,
    bytes: Vec<u8>,
    /// Relocations by their offset, with type, symbol and addend.
    relocations: Vec<(u64, String)>,
}

/// The sections with code in an object, in its order.
fn code(object: &Path) -> Result<Vec<Code>> {
    let data = fs::read(object)?;
    let file = object::File::parse(&*data).with_context(|| object.display().to_string())?;
    let mut sections = Vec::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let mut relocations = Vec::new();
        for (offset, relocation) in section.relocations() {
            let target = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    let symbol = file.symbol_by_index(index)?;
                    match (symbol.name()?, symbol.section_index()) {
                        ("", Some(section)) => file.section_by_index(section)?.name()?.to_owned(),
                        (name, _) => name.to_owned(),
                    }
                }
                other => format!("{other:?}"),
            };
            let how = (relocation.flags(), relocation.addend());
            relocations.push((offset, format!("{how:?} {target}")));
        }
        let bytes = section.data()?.to_vec();
        sections.push(Code { name: section.name()?.to_owned(), bytes, relocations });
    }
    Ok(sections)
}

fn first_difference(plain: &Code, again: &Code) -> String {
    let Code { name, bytes, relocations } = plain;
    if *name != again.name {
        return format!("section {name}, and {}", again.name);
    }
    if let Some(offset) = bytes.iter().zip(&again.bytes).position(|(a, b)| a != b) {
        return format!("{name} at {offset:#x}");
    }
    if bytes.len() != again.bytes.len() {
        return format!("{name} has {} bytes, and {}", bytes.len(), again.bytes.len());
    }
    let differs = relocations.iter().zip(&again.relocations).find(|(a, b)| a != b);
    match differs {
        Some((a, b)) => format!("{name} at {:#x}: {}, and {}", a.0, a.1, b.1),
        None => format!("{name} has {} relocations, and {}", relocations.len(), again.relocations.len()),
    }
}

/// A command of a compiler that makes an object of one source.
#[derive(Debug)]
pub struct Compilation {
    /// The arguments except for those that name outputs.
    pub words: Vec<OsString>,
    pub source: PathBuf,
}

impl Compilation {
    /// Reads the words of a command; `None` if it does not make an object from one C or C++ source.
    pub fn read(command: &[OsString]) -> Option<Compilation> {
        let mut words: Vec<OsString> = Vec::new();
        let mut sources = Vec::new();
        let mut compiles = false;
        let mut rest = command.iter();
        while let Some(word) = rest.next() {
            match word.to_str() {
                Some("-c") => compiles = true,
                Some("-o" | "-MF" | "-MT" | "-MQ") => drop(rest.next()),
                Some("-MD" | "-MMD" | "-MP") => {}
                Some(text) if text.starts_with("-Wp,-M") || text.starts_with("-MF") => {}
                // Its value may look like a source.
                Some("-D" | "-I" | "-include" | "-Xclang" | "-mllvm") => {
                    words.push(word.clone());
                    words.extend(rest.next().cloned());
                }
                _ => {
                    let ending = Path::new(word).extension().and_then(OsStr::to_str);
                    let is_source = matches!(ending, Some("c" | "cc" | "cpp" | "cxx" | "C" | "c++"));
                    if is_source && !word.as_encoded_bytes().starts_with(b"-") {
                        sources.push(PathBuf::from(word));
                    }
                    words.push(word.clone());
                }
            }
        }
        match (compiles, &sources[..]) {
            (true, [source]) => Some(Compilation { words, source: source.clone() }),
            _ => None,
        }
    }
}

/// The sets that the `module`th module of a program is compared with: `sets` of them, so that a few modules meet all
/// sets.
pub fn sets_of(module: usize, sets: usize) -> Result<impl Iterator<Item = &'static str>> {
    if sets > FLAGS.len() {
        bail!("there are {} sets of flags", FLAGS.len());
    }
    Ok((0..sets).map(move |set| FLAGS[(module * sets + set) % FLAGS.len()]))
}
