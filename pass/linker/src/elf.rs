//! What objects and linked images say of themselves: the ids of modules, and the symbols that they define.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use object::elf::{ET_DYN, ET_REL, STB_LOCAL};
use object::read::elf::{ElfFile64, FileHeader, Sym};
use object::{Endianness, Object, ObjectSection, ReadCache, ReadRef};

use crate::Error;

/// The section with the id of a module whose code was not generated yet.
pub const MODULE: (&str, &[u8; 8]) = (".pcce.module", b"PCCEMOD1");
/// The section with the id of a module in its code.
pub const CODE: (&str, &[u8; 8]) = (".pcce.code", b"PCCECOD1");
/// How many bytes each id has, with what stands before it.
const RECORD: usize = 16;

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// An object, with the ids of its modules.
    Object(Vec<u64>),
    /// An object of LLVM's bitcode.
    Bitcode,
    /// A shared library.
    Library,
    /// None of these.
    Other,
}

/// Looks at an object or a library. `shown` is what messages call it.
pub fn look<'d>(data: impl ReadRef<'d>, shown: &str) -> Result<Found, Error> {
    // The linker compiles it.
    if let Ok(b"BC\xc0\xde" | b"\xde\xc0\x17\x0b") = data.read_bytes_at(0, 4) {
        return Ok(Found::Bitcode);
    }
    // What is no ELF file is the linker's to read.
    let Ok(file) = ElfFile64::<Endianness, _>::parse(data) else { return Ok(Found::Other) };
    match file.elf_header().e_type(file.endian()) {
        ET_REL => Ok(Found::Object(ids(&file, MODULE, shown)?)),
        ET_DYN => Ok(Found::Library),
        _ => Ok(Found::Other),
    }
}

/// The ids in one kind of section of a file.
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

/// The ids of a file: modules without code, and with code. Messages call it `shown`.
pub fn ids_of_file(path: &Path, shown: &Path) -> Result<(Vec<u64>, Vec<u64>), Error> {
    let shown = shown.display().to_string();
    let cache = ReadCache::new(File::open(path).map_err(Error::file(path))?);
    let file = ElfFile64::<Endianness, _>::parse(&cache)
        .map_err(|error| Error::Damaged { file: shown.clone(), cause: error.to_string() })?;
    Ok((ids(&file, MODULE, &shown)?, ids(&file, CODE, &shown)?))
}

/// Whether a file is there that can have ids: other machines and formats have none.
pub fn is_elf64(path: &Path) -> bool {
    let mut start = [0; 5];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"\x7fELF\x02"
}

/// The names that an object defines for others, as an archive's index has them.
pub fn defined(data: &[u8], shown: &str) -> Result<Vec<Vec<u8>>, Error> {
    let damaged = |error: object::Error| Error::Damaged { file: shown.to_owned(), cause: error.to_string() };
    let file = ElfFile64::<Endianness>::parse(data).map_err(damaged)?;
    let endian = file.endian();
    let table = file.elf_symbol_table();
    let mut names = Vec::new();
    for symbol in table.iter().filter(|s| s.st_bind() != STB_LOCAL && !s.is_undefined(endian)) {
        names.push(symbol.name(endian, table.strings()).map_err(damaged)?.to_vec());
    }
    Ok(names)
}
