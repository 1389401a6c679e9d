//! ELF files: bounds on what is read of them, and where thread-local storage is.

use std::borrow::Cow;

use object::elf;
use object::read::elf::SectionHeader;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use pcce_dictionary::most_unpacked;
use thiserror::Error;

use pcce_abi::machine::Machine;
use pcce_abi::machine::objects::ThreadSegment;

/// First bytes of each ELF file.
pub const ELF_MAGIC: [u8; 4] = *b"\x7fELF";

/// Errors of reading a section.
#[derive(Debug, Error)]
pub enum SectionError {
    /// The section's compressed content is damaged.
    #[error("damaged section {section}: {cause}; build the program again, or copy it again")]
    Damaged { section: &'static str, cause: object::Error },
    /// The section claims to be much larger than such sections honestly are.
    #[error(
        "damaged section {section}: it claims to have {claimed} bytes in {stored} compressed ones; build the \
         program again, or copy it again"
    )]
    Overlong {
        section: &'static str,
        claimed: u64,
        /// Size of the compressed content in the file.
        stored: usize,
    },
}

/// The content of a section that may be compressed. A damaged header must not make it fill the memory.
pub(crate) fn content<'data>(
    section: &impl ObjectSection<'data>,
    name: &'static str,
) -> Result<Cow<'data, [u8]>, SectionError> {
    let cause = |cause| SectionError::Damaged { section: name, cause };
    let data = section.compressed_data().map_err(cause)?;
    let (claimed, stored) = (data.uncompressed_size, data.data.len());
    if claimed > most_unpacked(stored).max(stored as u64) {
        return Err(SectionError::Overlong { section: name, claimed, stored });
    }
    data.decompress().map_err(cause)
}

/// The number of bytes of the file that its sections take. None if two sections overlap, or one is larger
/// than the file: such a small file could claim very large sections.
pub(crate) fn stored(file: &object::File<'_>) -> Option<u64> {
    let object::File::Elf64(elf) = file else { return None };
    let mut places: Vec<(u64, u64)> =
        file.sections().filter_map(|s| s.file_range()).filter(|r| r.1 > 0).collect();
    places.sort_unstable();
    let end = |place: &(u64, u64)| place.0.checked_add(place.1);
    let apart = places.is_sorted_by(|a, b| end(a).is_some_and(|end| end <= b.0));
    let inside = places.last().is_none_or(|last| end(last).is_some_and(|end| end <= elf.data().len() as u64));
    (apart && inside).then(|| places.iter().map(|place| place.1).sum())
}

/// Returns whether the names of a file's symbols can be read in a time that its size bounds: many symbols may
/// share one very long name.
pub(crate) fn names_are_bounded(file: &object::File<'_>) -> bool {
    /// Bounds on the bytes of all names together: for any file, and for each byte of it.
    const BASE: u64 = 1 << 34;
    const PER_BYTE: u64 = 1 << 10;
    let object::File::Elf64(file) = file else { return false };
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_section_table();
    sections.iter().filter(|s| matches!(s.sh_type(endian), elf::SHT_SYMTAB | elf::SHT_DYNSYM)).all(
        |symbols| {
            let strings = sections.section(symbols.link(endian));
            let Ok(strings) = strings.and_then(|strings| strings.data(endian, data)) else { return false };
            let longest = strings.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0) as u64;
            let all = (symbols.sh_size(endian) / size_of::<elf::Sym64<object::LittleEndian>>() as u64)
                .saturating_mul(longest);
            all <= BASE.saturating_add(PER_BYTE.saturating_mul(data.len() as u64))
        },
    )
}

/// The offset of the thread's block from the thread pointer, in bytes, in the image that defines it, if that
/// is a program. None for other images.
pub fn tls_offset(file: &object::File<'_>) -> Option<i64> {
    tls_offset_of(file, pcce_abi::TLS_SYMBOL)
}

/// As [`tls_offset`], for any thread-local variable.
pub fn tls_offset_of(file: &object::File<'_>, name: &str) -> Option<i64> {
    let symbol = file
        .symbols()
        .chain(file.dynamic_symbols())
        .find(|s| s.kind() == SymbolKind::Tls && !s.is_undefined() && s.name() == Ok(name))?;
    let object::File::Elf64(elf_file) = file else { return None };
    let endian = elf_file.endian();
    let segment = elf_file.elf_program_headers().iter().find(|h| h.p_type.get(endian) == elf::PT_TLS)?;
    let segment = ThreadSegment {
        start: segment.p_vaddr.get(endian),
        size: segment.p_memsz.get(endian),
        align: segment.p_align.get(endian).max(1),
    };
    let machine = Machine::of_elf(elf_file.elf_header().e_machine.get(endian).0)?;
    let start = (machine.objects.thread_storage)(&segment)?;
    Some(start.wrapping_add(symbol.address() as i64))
}
