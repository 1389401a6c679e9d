//! Fits code to the symbols of the object that it replaces. Tools change the symbols of objects (`objcopy`),
//! while code is made of the module's bitcode, with the names of its compilation.
//!
//! Symbols that were made local, global or weak are changed in the code as well. Different names are an
//! error, since it is not known which symbols are the same.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf::{STB_LOCAL, STB_WEAK, STT_FILE, STT_SECTION};
use object::read::elf::{ElfFile64, Sym};
use object::{Endianness, Object, ObjectComdat, ObjectSection};
use pcce_abi::skeleton;

use crate::Error;
use crate::scratch::Scratch;

/// A symbol that is not local.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Global {
    defined: bool,
    weak: bool,
    /// The linker takes one of several definitions: it is weak, or in a group of which one is linked.
    replaceable: bool,
}

/// The symbols of an object.
#[derive(Debug, Default)]
struct Symbols {
    global: BTreeMap<Vec<u8>, Global>,
    local: HashSet<Vec<u8>>,
    /// The object's source files, as far as it records them.
    sources: Vec<Vec<u8>>,
    /// The names of its modules; none if it does not have them.
    names: Option<HashSet<Vec<u8>>>,
}

/// A change of a symbol: an option of `objcopy`, and the name.
type Change = (&'static str, Vec<u8>);

/// The code for the object `skeleton`: `code`, or a copy of it at `to` whose symbols are changed.
pub fn fit(
    skeleton: &[u8],
    code: &Path,
    shown: &str,
    scratch: &Scratch,
    to: &Path,
) -> Result<PathBuf, Error> {
    let skeleton = Symbols::read(skeleton, shown)?;
    let read = |file: &Path| Symbols::read(&fs::read(file).map_err(Error::file(file))?, shown);
    let changes = skeleton.changes(&read(code)?, shown)?;
    if changes.is_empty() {
        return Ok(code.to_owned());
    }
    let mut words: Vec<OsString> = Vec::new();
    words.extend(changes.iter().map(|(option, name)| {
        [OsStr::new(option), OsStr::from_bytes(name)].into_iter().collect::<OsString>()
    }));
    words.extend([code.into(), to.into()]);
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    scratch.objcopy(words)?;
    match skeleton.changes(&read(to)?, shown)?.first() {
        None => Ok(to.to_owned()),
        Some((_, name)) => Err(other_symbols(shown, name, "is bound in another way")),
    }
}

fn other_symbols(shown: &str, name: &[u8], what: &'static str) -> Error {
    Error::Symbols { file: shown.to_owned(), name: name.escape_ascii().to_string(), what }
}

impl Symbols {
    fn read(object: &[u8], shown: &str) -> Result<Self, Error> {
        let damaged = |e: object::Error| Error::Damaged { file: shown.to_owned(), cause: e.to_string() };
        let file = ElfFile64::<Endianness>::parse(object).map_err(damaged)?;
        let endian = file.endian();
        let table = file.elf_symbol_table();
        let grouped: HashSet<usize> =
            file.comdats().flat_map(|comdat| comdat.sections().map(|section| section.0)).collect();
        let mut symbols = Symbols::default();
        for symbol in table.iter() {
            let name = symbol.name(endian, table.strings()).map_err(damaged)?.to_vec();
            if symbol.st_type() == STT_FILE {
                symbols.sources.push(name);
            } else if symbol.st_bind() != STB_LOCAL {
                let weak = symbol.st_bind() == STB_WEAK;
                let replaceable = weak || grouped.contains(&usize::from(symbol.st_shndx(endian).0));
                let defined = !symbol.is_undefined(endian);
                symbols.global.insert(name, Global { defined, weak, replaceable });
            } else if symbol.st_type() != STT_SECTION {
                symbols.local.insert(name);
            }
        }
        symbols.sources.sort();
        for section in file.sections().filter(|section| section.name() == Ok(skeleton::NAMES_SECTION)) {
            let data = section.data().map_err(damaged)?;
            let names = data.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            symbols.names.get_or_insert_default().extend(names.map(<[u8]>::to_vec));
        }
        Ok(symbols)
    }

    /// The changes that give the code's symbols the binding of this object's.
    fn changes(&self, code: &Symbols, shown: &str) -> Result<Vec<Change>, Error> {
        let mut left = code.sources.iter();
        if !self.sources.iter().all(|source| left.any(|known| known == source)) {
            return Err(Error::JoinedWithOthers { file: shown.to_owned() });
        }
        let named = |name: &Vec<u8>| self.names.as_ref().is_some_and(|names| names.contains(name));
        let known = |name: &Vec<u8>| self.names.as_ref().is_none_or(|names| names.contains(name));
        let mut changes = Vec::new();
        for (name, own) in self.global.iter().filter(|(name, _)| !is_ours(name)) {
            match code.global.get(name) {
                Some(other) if other.defined && !own.defined => {
                    return Err(other_symbols(shown, name, "is not defined, and its module defines it"));
                }
                // The program has another module's body of an inline function, or of a sanitizer's constructor.
                Some(Global { defined: false, .. }) | None
                    if own.defined && own.replaceable && known(name) => {}
                Some(other) if own.defined && !other.defined => {
                    return Err(other_symbols(shown, name, "is defined, and its module only refers to it"));
                }
                Some(_) if !own.defined => {}
                Some(other) if own.weak && !other.weak => changes.push(("--weaken-symbol=", name.clone())),
                Some(other) if !own.weak && other.weak => {
                    return Err(other_symbols(shown, name, "is not weak, and its module's is"));
                }
                Some(_) => {}
                None if own.defined && code.local.contains(name) => {
                    changes.push(("--globalize-symbol=", name.clone()));
                }
                None if own.defined || !known(name) => {
                    return Err(other_symbols(shown, name, "is no name of its module"));
                }
                // The code needs no call, for instance of a function that is one instruction of the machine.
                None => {}
            }
        }
        for (name, other) in code.global.iter().filter(|(name, _)| !self.global.contains_key(*name)) {
            if self.local.contains(name) && other.defined {
                changes.push(("--localize-symbol=", name.clone()));
            } else if named(name) && can_be_referred_to(name) {
                return Err(other_symbols(shown, name, "is a name of its module, and not there"));
            }
        }
        Ok(changes)
    }
}

/// Names of the project's own symbols, and of symbols that code generation makes.
fn is_ours(name: &[u8]) -> bool {
    [&b"__pcce"[..], b"pcce_", b"DW.ref.", b"_GLOBAL_OFFSET_TABLE_"].iter().any(|own| name.starts_with(own))
}

/// Returns whether the assembly of a skeleton can contain the name.
fn can_be_referred_to(name: &[u8]) -> bool {
    !name.iter().any(|byte| b"{|}\"\\".contains(byte) || byte.is_ascii_control())
}
