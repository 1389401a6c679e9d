//! LLVM's bitcode in the inputs of a link, alone or beside machine code, and its LLVM version.
//!
//! Only headers and tables of the files are read. The linker reports files that cannot be read.

mod producer;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::read::archive::ArchiveFile;
use object::{Object, ObjectSection, ReadCache, ReadRef};
use pcce_abi::skeleton;

use crate::args::{Role, Word};
use crate::command::linker_arguments;

/// A file with bitcode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bitcode {
    /// The file, as the command line names it, or as it was found for `-l`.
    pub file: PathBuf,
    /// The newest LLVM major version that wrote some of it, if it is known.
    pub llvm: Option<u32>,
}

/// The section with bitcode in an object with machine code.
const SECTION: &str = ".llvm.lto";
/// The number of bytes of bitcode that are read to learn its version.
const START: u64 = 256;

/// The contents of a link's inputs, in the order of its words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The files with bitcode.
    pub bitcode: Vec<Bitcode>,
    /// A file with objects of link mode.
    pub skeleton: Option<PathBuf>,
}

/// Looks into the files of a link.
pub fn of(words: &[Word]) -> Inputs {
    let mut inputs = Inputs::default();
    for file in files(words) {
        let found = look(&file);
        if found.skeleton {
            inputs.skeleton.get_or_insert_with(|| file.clone());
        }
        inputs.bitcode.extend(found.bitcode.map(|llvm| Bitcode { file, llvm }));
    }
    inputs
}

/// The object files and archives that the linker will read, as far as they are known.
fn files(words: &[Word]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut folders = Vec::new();
    let mut libraries = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let bytes = word.bytes();
        let value = |name: &[u8]| match word.role {
            Role::Value => (words[index - 1].bytes() == name).then_some(bytes),
            Role::Option => bytes.strip_prefix(name).filter(|value| !value.is_empty()),
            Role::Input => None,
        };
        if word.role == Role::Input {
            files.push(PathBuf::from(&word.text));
        } else if let Some(folder) = value(b"-L") {
            folders.push(Path::new(OsStr::from_bytes(folder)));
        } else if let Some(name) = value(b"-l") {
            libraries.push(name);
        }
    }
    let plain = linker_arguments(words).into_iter().filter(|argument| !argument.starts_with(b"-"));
    files.extend(plain.map(|argument| PathBuf::from(OsStr::from_bytes(argument))));
    files.extend(libraries.into_iter().filter_map(|name| library(name, &folders)));
    files
}

/// The archive that a linker takes for `-lNAME`, in the given folders; none if it takes a shared library.
fn library(name: &[u8], folders: &[&Path]) -> Option<PathBuf> {
    if let Some(file) = name.strip_prefix(b":") {
        return folders.iter().map(|folder| folder.join(OsStr::from_bytes(file))).find(|file| file.exists());
    }
    let file =
        |folder: &Path, ending: &[u8]| folder.join(OsStr::from_bytes(&[b"lib", name, ending].concat()));
    let folder = folders.iter().find(|f| file(f, b".so").exists() || file(f, b".a").exists())?;
    Some(file(folder, b".a")).filter(|archive| !file(folder, b".so").exists() && archive.exists())
}

/// The content of a file.
#[derive(Default)]
struct Found {
    /// The newest LLVM version of its bitcode; none without bitcode.
    bitcode: Option<Option<u32>>,
    /// It has an object of link mode.
    skeleton: bool,
}

fn look(path: &Path) -> Found {
    if !fs::metadata(path).is_ok_and(|data| data.is_file()) {
        return Found::default();
    }
    let Ok(file) = File::open(path) else { return Found::default() };
    let cache = ReadCache::new(file);
    let Ok(archive) = ArchiveFile::parse(&cache) else { return look_into(&cache).unwrap_or_default() };
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut found = Found::default();
    for member in archive.members() {
        let Ok(member) = member else { break };
        let (offset, size) = member.file_range();
        let there = match member.is_thin() {
            true => look(&folder.join(OsStr::from_bytes(member.name()))),
            false => look_into(cache.range(offset, size)).unwrap_or_default(),
        };
        found.bitcode = found.bitcode.max(there.bitcode);
        found.skeleton |= there.skeleton;
    }
    found
}

/// The content of one object.
fn look_into<'d>(data: impl ReadRef<'d>) -> Option<Found> {
    let size = data.len().ok()?;
    let start = data.read_bytes_at(0, size.min(START)).ok()?;
    if producer::is_bitcode(start) {
        return Some(Found { bitcode: Some(producer::llvm(start)), skeleton: false });
    }
    // Linker scripts and the like are no objects.
    if !start.starts_with(b"\x7fELF") {
        return None;
    }
    let object = object::File::parse(data).ok()?;
    let skeleton = object.section_by_name(skeleton::MODULE_SECTION).is_some();
    let bitcode = object.section_by_name(SECTION).and_then(|section| {
        let (offset, size) = section.file_range()?;
        let start = data.read_bytes_at(offset, size.min(START)).ok()?;
        Some(producer::llvm(start))
    });
    Some(Found { bitcode, skeleton })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn libraries_are_found_as_the_linker_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a/libone.a", "b/libone.so", "b/libtwo.so", "b/libtwo.a", "b/libthree.a", "b/four.o"] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "").unwrap();
        }
        let line = format!(
            "main.o -L{a} -L {b} -lone -ltwo -l three -l:four.o -lm -Wl,--whole-archive,w.a -Xlinker x.a -o x.o",
            a = path("a").display(),
            b = path("b").display()
        );
        let words = args::parse(line.split(' ').map(Into::into), |_| None).unwrap().words;
        let expected = [
            "main.o".into(),
            "w.a".into(),
            "x.a".into(),
            path("a/libone.a"),
            path("b/libthree.a"),
            path("b/four.o"),
        ];
        assert_eq!(files(&words), expected);
    }
}
