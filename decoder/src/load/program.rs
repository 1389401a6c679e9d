//! Programs and shared libraries: from the ELF file to its dictionary.

use object::elf::SHF_EXECINSTR;
use object::{Object, ObjectKind, ObjectSection, SectionFlags};
use pcce_dictionary::code::{self, Code};
use pcce_dictionary::section::{self, Record, SECTION};
use pcce_dictionary::{Dictionary, DictionaryError, Encoding, Module};
use thiserror::Error;

use crate::code::build;
use crate::code::elf::{SectionError, content};
use crate::token::to_hex;

/// Errors of reading the dictionary of a program.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The file is no ELF file, or a damaged one.
    #[error("damaged ELF file: {0}; build the program again, or copy it again")]
    Elf(object::Error),
    /// An object file or a core file.
    #[error("this ELF file is {0}, not a linked program or shared library; give the linked one")]
    NotLinked(&'static str),
    /// The program has no section with a dictionary.
    #[error(
        "the program has no dictionary (no section {}): it was not built with the pass, or was stripped; give \
         the unstripped program, or its separate debug file",
        SECTION
    )]
    NoSection,
    /// A section cannot be read.
    #[error(transparent)]
    Section(#[from] SectionError),
    /// The section holds no record of code that is in the program.
    #[error(
        "section {} holds no dictionary of code that is in the program; build the program again",
        SECTION
    )]
    NoModule,
    /// Modules of an earlier release, whose code was never encoded.
    #[error(
        "parts of the program were compiled by an earlier release, and are not encoded; compile them again"
    )]
    Unlinked,
    /// The program has no build id: its tokens could not be distinguished from those of other builds.
    #[error("the program has no build id; link it with -Wl,--build-id (GNU ld, lld)")]
    NoBuildId,
    /// The file is a separate debug file.
    #[error(
        "it is a separate debug file, without machine code; contexts of points at which the program was interrupted \
         (crash reports, samples, signal handlers) need the program before it was stripped, or what `pcce dict` has \
         made of that"
    )]
    NoMachineCode,
    #[error(transparent)]
    Record(#[from] DictionaryError),
}

/// Makes the dictionary of a linked program from the content of its file. `name` is the file's name, for messages.
///
/// # Errors
/// [`ProgramError`]; never panics, whatever the bytes.
pub fn dictionary(bytes: &[u8], name: &str) -> Result<Dictionary, ProgramError> {
    let file = object::File::parse(bytes).map_err(ProgramError::Elf)?;
    match file.kind() {
        ObjectKind::Relocatable => return Err(ProgramError::NotLinked("an object file")),
        ObjectKind::Core => return Err(ProgramError::NotLinked("a core dump")),
        _ => {}
    }
    let section = file.section_by_name(SECTION).ok_or(ProgramError::NoSection)?;
    let content = content(&section, SECTION)?;
    let (modules, encodings) = symbols_and_encodings(section::parse(&content)?)?;
    if modules.is_empty() {
        return Err(if content.is_empty() { ProgramError::NoSection } else { ProgramError::NoModule });
    }
    let build_id = file.build_id().map_err(ProgramError::Elf)?.filter(|id| !id.is_empty());
    let build_id = build_id.ok_or(ProgramError::NoBuildId)?;
    Ok(Dictionary {
        build_id: to_hex(build_id),
        program: name.to_owned(),
        modules,
        encodings,
        ..Dictionary::default()
    })
}

/// Puts the records of a program together.
fn symbols_and_encodings(records: Vec<Record>) -> Result<(Vec<Module>, Vec<Encoding>), ProgramError> {
    let (mut modules, mut encodings) = (Vec::new(), Vec::new());
    for record in records {
        let (of_record, their) = match record {
            // The linker writes 0 as the address of discarded sections (--gc-sections, lost COMDATs).
            Record::Fragment(fragment) if fragment.module.sites_address == 0 => continue,
            Record::Unlinked(unlinked) if unlinked.module.sites_address == 0 => continue,
            Record::Fragment(fragment) => (vec![fragment.module], fragment.encodings),
            Record::Unlinked(_) => return Err(ProgramError::Unlinked),
            Record::Linked(linked) => (linked.modules, linked.encodings),
        };
        // Each module has some bytes in the file, so their number fits 32 bits.
        let first = modules.len() as u32;
        modules.extend(of_record);
        let moved = |encoding: Encoding| Encoding { first_module: first + encoding.first_module, ..encoding };
        encodings.extend(their.into_iter().map(moved));
    }
    Ok((modules, encodings))
}

/// Reads the machine code of the program that `dictionary` was made of, from the content of its file,
/// `bytes`. If that is a separate debug file, `stripped` is the program's own. None if the program does not
/// say where its functions are.
///
/// # Errors
/// [`ProgramError`]; never panics, whatever the bytes.
pub fn code(
    bytes: &[u8],
    stripped: Option<&[u8]>,
    dictionary: &Dictionary,
) -> Result<Option<Code>, ProgramError> {
    let file = object::File::parse(bytes).map_err(ProgramError::Elf)?;
    let stripped = stripped.map(object::File::parse).transpose().map_err(ProgramError::Elf)?;
    let Some(section) = file.section_by_name(code::SECTION) else { return Ok(None) };
    let content = content(&section, code::SECTION)?;
    let addresses = code::parse_section(&content)?;
    let loaded = stripped.as_ref().unwrap_or(&file);
    let executable = loaded.sections().filter(|section| match section.flags() {
        SectionFlags::Elf { sh_flags, .. } => (sh_flags & SHF_EXECINSTR).0 != 0 && section.size() > 0,
        _ => false,
    });
    let ranges: Vec<_> = executable.map(|section| section.file_range()).collect();
    if !ranges.is_empty() && ranges.iter().all(Option::is_none) {
        return Err(ProgramError::NoMachineCode);
    }
    Ok(Some(build(&file, loaded, &dictionary.modules, &addresses)))
}
