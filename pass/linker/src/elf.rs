//! Objects and linked images: the ids of their modules, and the symbols that they define.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use object::elf::{DT_SONAME, ET_DYN, ET_REL, FileType, SHT_RELA, STB_LOCAL};
use object::read::elf::{Dyn, ElfFile64, FileHeader, SectionHeader, Sym};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef, SectionIndex};
use pcce_abi::skeleton;

use crate::{Error, partial};

/// The section with the id of a module whose code is not generated yet.
pub const MODULE: (&str, &[u8; 8]) = (skeleton::MODULE_SECTION, &skeleton::MODULE_MAGIC);
/// The section with the id of a module in its code.
pub const CODE: (&str, &[u8; 8]) = (skeleton::CODE_SECTION, &skeleton::CODE_MAGIC);
/// The length of an id with its magic bytes.
const RECORD: usize = 16;
/// The length of a relocation.
const RELA: usize = 24;

/// The kind of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// An object, with the ids of its modules, and the section with its inputs if it is the output of a
    /// partial link.
    Object(Vec<u64>, Option<Vec<u8>>),
    /// An object of LLVM's bitcode.
    Bitcode,
    /// A shared library.
    Library,
    /// None of these.
    Other,
}

/// The number of first bytes that [`look`] needs.
pub const START: usize = 18;

/// Looks at an object or a library. `start` are its first bytes; `all` reads all of it. `shown` is its name
/// in messages.
pub fn look(start: &[u8], all: impl FnOnce() -> Result<Vec<u8>, Error>, shown: &str) -> Result<Found, Error> {
    // The linker compiles bitcode.
    if start.starts_with(b"BC\xc0\xde") || start.starts_with(b"\xde\xc0\x17\x0b") {
        return Ok(Found::Bitcode);
    }
    // The linker reads files that are not ELF.
    if start.len() < START || !start.starts_with(b"\x7fELF\x02") {
        return Ok(Found::Other);
    }
    let kind = [start[16], start[17]];
    let little = start[5] == 1;
    match FileType(if little { u16::from_le_bytes(kind) } else { u16::from_be_bytes(kind) }) {
        ET_REL => {
            let data = all()?;
            let file = ElfFile64::<Endianness>::parse(&*data)
                .map_err(|error| Error::Damaged { file: shown.to_owned(), cause: error.to_string() })?;
            let inputs = file.section_by_name(partial::SECTION);
            let inputs = inputs.map(|section| section.data().map(<[u8]>::to_vec)).transpose();
            let inputs =
                inputs.map_err(|e| Error::Damaged { file: shown.to_owned(), cause: e.to_string() })?;
            Ok(Found::Object(ids(&file, MODULE, shown)?, inputs))
        }
        ET_DYN => Ok(Found::Library),
        _ => Ok(Found::Other),
    }
}

/// Sorts the relocations of an object's unwind tables by their offsets. mold 1.10 writes the relocations of a
/// second file's personality after the first file's, and crashes when it reads them. (The pass needs the
/// personality of C, for landing pads of its own, beside that of C++.)
pub fn sort_unwind_relocations(file: &Path) -> Result<(), Error> {
    let damaged =
        |error: object::Error| Error::Damaged { file: file.display().to_string(), cause: error.to_string() };
    let mut data = fs::read(file).map_err(Error::file(file))?;
    let mut tables = Vec::new();
    let object = ElfFile64::<Endianness>::parse(&*data).map_err(damaged)?;
    let endian = object.endian();
    for (_, header) in object.elf_section_table().enumerate() {
        let of = SectionIndex(header.sh_info(endian) as usize);
        if header.sh_type(endian) == SHT_RELA
            && object.section_by_index(of).is_ok_and(|section| section.name() == Ok(".eh_frame"))
        {
            let content = header.data(endian, &*data).map_err(damaged)?;
            let mut rows: Vec<[u8; RELA]> = content.as_chunks().0.to_vec();
            rows.sort_by_key(|row| u64::from_le_bytes(*row.first_chunk().expect("it begins with the place")));
            tables.push((header.sh_offset(endian) as usize, rows.concat()));
        }
    }
    for (at, table) in tables {
        data[at..at + table.len()].copy_from_slice(&table);
    }
    fs::write(file, data).map_err(Error::file(file))
}

/// The ids in sections of one kind.
fn ids<'d>(
    file: &ElfFile64<'d, Endianness, impl ReadRef<'d>>,
    (name, magic): (&str, &[u8; 8]),
    shown: &str,
) -> Result<Vec<u64>, Error> {
    let damaged = |cause: String| Error::Damaged { file: shown.to_owned(), cause };
    let mut ids = Vec::new();
    for section in file.sections().filter(|section| section.name() == Ok(name)) {
        let data = section.data().map_err(|error| damaged(format!("section {name}: {error}")))?;
        let records = data.chunks(RECORD).map(|record| {
            let id = record.strip_prefix(magic)?;
            Some(u64::from_le_bytes(id.try_into().ok()?))
        });
        let read: Option<Vec<u64>> = records.collect();
        ids.extend(read.ok_or_else(|| {
            damaged(format!(
                "section {name} does not hold what this release writes; compile the program anew"
            ))
        })?);
    }
    Ok(ids)
}

/// The ids of an object or a linked file: of modules without code, and with code. `shown` is its name in
/// messages.
pub fn all_ids<'d>(data: impl ReadRef<'d>, shown: &str) -> Result<(Vec<u64>, Vec<u64>), Error> {
    let file = ElfFile64::<Endianness, _>::parse(data)
        .map_err(|error| Error::Damaged { file: shown.to_owned(), cause: error.to_string() })?;
    Ok((ids(&file, MODULE, shown)?, ids(&file, CODE, shown)?))
}

/// The ids of a file of any size.
pub fn ids_of_file(path: &Path, shown: &Path) -> Result<(Vec<u64>, Vec<u64>), Error> {
    let cache = ReadCache::new(File::open(path).map_err(Error::file(path))?);
    all_ids(&cache, &shown.display().to_string())
}

/// Returns whether the file exists and can have ids. Other formats have none.
pub fn is_elf64(path: &Path) -> bool {
    let mut start = [0; 5];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"\x7fELF\x02"
}

/// The names that an object or an image defines: all, or those that other files see, as in an archive's
/// index.
pub fn defined<'d>(data: impl ReadRef<'d>, all: bool, shown: &str) -> Result<Vec<Vec<u8>>, Error> {
    names(data, shown, |local, undefined| (all || !local) && !undefined)
}

/// The undefined names of an object.
pub fn undefined<'d>(data: impl ReadRef<'d>, shown: &str) -> Result<Vec<Vec<u8>>, Error> {
    names(data, shown, |local, undefined| !local && undefined)
}

/// The source file of an object, as the object records it.
pub fn source<'d>(data: impl ReadRef<'d>, shown: &str) -> Result<Option<String>, Error> {
    let damaged = |error: object::Error| Error::Damaged { file: shown.to_owned(), cause: error.to_string() };
    let file = ElfFile64::<Endianness, _>::parse(data).map_err(damaged)?;
    let source = file.symbols().find(|symbol| symbol.kind() == object::SymbolKind::File);
    Ok(source.and_then(|symbol| symbol.name().ok().map(str::to_owned)))
}

/// Returns whether a file is a shared library without a name for the loader (`DT_SONAME`), so that programs
/// load it by the name by which it was linked.
pub fn is_library_without_name(path: &Path) -> Result<bool, Error> {
    let cache = ReadCache::new(File::open(path).map_err(Error::file(path))?);
    let Ok(file) = ElfFile64::<Endianness, _>::parse(&cache) else { return Ok(false) };
    let tags = file.elf_dynamic_table().map(|table| table.dynamics().to_vec()).unwrap_or_default();
    let has_name = tags.iter().any(|entry| entry.tag(file.endian()) == DT_SONAME);
    Ok(file.elf_header().e_type(file.endian()) == ET_DYN && !has_name)
}

/// The names of the symbols for which `wanted` holds. It gets whether a symbol is local, and whether it is
/// undefined.
fn names<'d>(
    data: impl ReadRef<'d>,
    shown: &str,
    wanted: impl Fn(bool, bool) -> bool,
) -> Result<Vec<Vec<u8>>, Error> {
    let damaged = |error: object::Error| Error::Damaged { file: shown.to_owned(), cause: error.to_string() };
    let file = ElfFile64::<Endianness, _>::parse(data).map_err(damaged)?;
    let endian = file.endian();
    let table = file.elf_symbol_table();
    let wanted = |symbol: &_| wanted(Sym::st_bind(symbol) == STB_LOCAL, Sym::is_undefined(symbol, endian));
    let names = table.iter().filter(|symbol| wanted(*symbol));
    names.map(|symbol| Ok(symbol.name(endian, table.strings()).map_err(damaged)?.to_vec())).collect()
}
