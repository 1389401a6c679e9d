//! Debug information, checked so that reading it takes no more than a file of its size can honestly ask for.
//!
//! In DWARF a few bytes can stand for very much: tables and strings that many units share, entries within
//! entries. The reader (addr2line) follows them all. So this module first rejects debug information that no
//! compiler writes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gimli::{
    Abbreviations, DebugAbbrev, DebugAbbrevOffset, Dwarf, EndianArcSlice, EntriesRaw, LittleEndian,
    Reader as _, Section, UnitHeader,
};
use object::Object;

use super::elf::content;

/// A reader of a section of the debug information.
pub(super) type Reader = EndianArcSlice<LittleEndian>;

/// The debug information of a file of `len` bytes. None if it is damaged, or more than a file of this size
/// can honestly hold.
pub(super) fn debug_information(file: &object::File<'_>, len: u64) -> Option<Dwarf<Reader>> {
    sections(file, |id| Some(id.name())).filter(|dwarf| Left::of(len).read(dwarf) == Ok(true))
}

/// The debug information that a compiler has put into a file of its own (`-gsplit-dwarf`). `path` is its name
/// in the program's debug information. None if the file is not there, and where [`debug_information`] is None.
pub(super) fn split_information(path: &Path, parent: &Dwarf<Reader>) -> Option<Dwarf<Reader>> {
    // The name comes from the program, and may name a device.
    let len = fs::metadata(path).ok().filter(|metadata| metadata.is_file())?.len();
    let bytes = fs::read(path).ok()?;
    let mut found = sections(&object::File::parse(&*bytes).ok()?, gimli::SectionId::dwo_name)?;
    if Left::of(len).read_units(&found, |_, _, _| Ok(true)) != Ok(true) {
        return None;
    }
    found.make_dwo(parent);
    Some(found)
}

fn sections(
    file: &object::File<'_>,
    name: impl Fn(gimli::SectionId) -> Option<&'static str>,
) -> Option<Dwarf<Reader>> {
    let section = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
        let data = name(id).and_then(|name| content(&file.section_by_name(name)?, name).ok());
        Ok(Reader::new(data.unwrap_or(Cow::Borrowed(&[])).into(), LittleEndian))
    };
    Dwarf::load(section).ok()
}

/// Bound on the depth of entries. Compilers inline far less deeply.
const MAX_NESTING: isize = 1 << 10;
/// The amount of each kind that is fine in a file of any size.
const BASE: u64 = 1 << 20;

/// The amounts that may still be read, by kind. They are bytes, except for functions and ranges. Their bounds
/// depend on the file's size.
struct Left {
    abbreviations: u64,
    /// Subprograms and inlined calls.
    functions: u64,
    ranges: u64,
    line_headers: u64,
    line_programs: u64,
    file_names: u64,
}

/// Takes `count` from `left`. Returns false if less is left.
fn take(left: &mut u64, count: u64) -> bool {
    let rest = left.checked_sub(count);
    *left = rest.unwrap_or(0);
    rest.is_some()
}

impl Left {
    /// The amounts for a file of `file` bytes.
    fn of(file: u64) -> Self {
        let bound = |shift: u32| BASE + (file >> shift);
        Self {
            abbreviations: bound(2),
            functions: bound(2),
            ranges: bound(2),
            line_headers: bound(3),
            line_programs: bound(0),
            file_names: 128 * BASE + 16 * file,
        }
    }

    /// Returns whether debug information stays within the amounts. Damaged information is an error.
    fn read(&mut self, dwarf: &Dwarf<Reader>) -> gimli::Result<bool> {
        self.read_units(dwarf, |left, header, table| left.lines(dwarf, header, table))
    }

    /// As [`Self::read`], for the entries. `lines` reads what a unit refers to in other sections.
    fn read_units(
        &mut self,
        dwarf: &Dwarf<Reader>,
        lines: impl Fn(&mut Self, &UnitHeader<Reader>, &Abbreviations) -> gimli::Result<bool>,
    ) -> gimli::Result<bool> {
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            headers.push(header);
        }
        let Some(tables) = self.abbreviations(dwarf, &headers)? else { return Ok(false) };
        for header in headers {
            let table = &tables[&header.debug_abbrev_offset().0];
            if !self.entries(header.entries_raw(table, None)?)? || !lines(self, &header, table)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The tables of abbreviations, by offset; None if they are too many, or lie within one another.
    fn abbreviations(
        &mut self,
        dwarf: &Dwarf<Reader>,
        headers: &[UnitHeader<Reader>],
    ) -> gimli::Result<Option<BTreeMap<usize, Abbreviations>>> {
        let section = dwarf.debug_abbrev.reader();
        let mut tables: BTreeMap<usize, Abbreviations> = BTreeMap::new();
        let mut end = section.len();
        let mut offsets: Vec<usize> = headers.iter().map(|header| header.debug_abbrev_offset().0).collect();
        offsets.sort_unstable();
        offsets.dedup();
        for start in offsets.into_iter().rev() {
            let mut bytes = section.clone();
            bytes.truncate(end)?;
            bytes.skip(start)?;
            if !take(&mut self.abbreviations, bytes.len() as u64) {
                return Ok(None);
            }
            let table = DebugAbbrev::from(bytes).abbreviations(DebugAbbrevOffset(0))?;
            tables.insert(start, table);
            end = start;
        }
        Ok(Some(tables))
    }

    fn entries(&mut self, mut entries: EntriesRaw<'_, Reader>) -> gimli::Result<bool> {
        while !entries.is_empty() {
            if entries.next_depth() > MAX_NESTING {
                return Ok(false);
            }
            let Some(entry) = entries.read_abbreviation()? else { continue };
            let function = matches!(entry.tag(), gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine);
            if function && !take(&mut self.functions, 1) {
                return Ok(false);
            }
            entries.skip_attributes(entry.attributes())?;
        }
        Ok(true)
    }

    /// Reads what a unit refers to in other sections: its lines, and the ranges of its functions.
    fn lines(
        &mut self,
        dwarf: &Dwarf<Reader>,
        header: &UnitHeader<Reader>,
        table: &Abbreviations,
    ) -> gimli::Result<bool> {
        let mut root = header.entries_raw(table, None)?;
        let Some(entry) = root.read_abbreviation()? else { return Ok(true) };
        for attribute in entry.attributes() {
            let attribute = root.read_attribute(*attribute)?;
            if let (gimli::DW_AT_stmt_list, gimli::AttributeValue::DebugLineRef(offset)) =
                (attribute.name(), attribute.value())
                && !self.line_header(dwarf, offset.0)?
            {
                return Ok(false);
            }
        }
        let unit = dwarf.unit(header.clone())?;
        let unit = unit.unit_ref(dwarf);
        if let Some(program) = &unit.line_program {
            let lines = program.header();
            for file in lines.file_names() {
                let directory = file.directory(lines).map(|directory| unit.attr_string(directory));
                let parts = [Some(unit.attr_string(file.path_name())), directory];
                let own = unit.comp_dir.as_ref().map_or(0, |directory| directory.len());
                let parts = parts.into_iter().flatten().flatten().map(|part| part.len());
                if !take(&mut self.file_names, (own + parts.sum::<usize>()) as u64) {
                    return Ok(false);
                }
            }
        }
        let mut entries = header.entries_raw(table, None)?;
        while !entries.is_empty() {
            let Some(entry) = entries.read_abbreviation()? else { continue };
            if entry.attributes().iter().all(|attribute| attribute.name() != gimli::DW_AT_ranges) {
                entries.skip_attributes(entry.attributes())?;
                continue;
            }
            for attribute in entry.attributes() {
                let attribute = entries.read_attribute(*attribute)?;
                if attribute.name() == gimli::DW_AT_ranges
                    && let Some(mut ranges) = unit.attr_ranges(attribute.value())?
                {
                    while ranges.next()?.is_some() {
                        if !take(&mut self.ranges, 1) {
                            return Ok(false);
                        }
                    }
                }
            }
        }
        Ok(true)
    }

    /// Reads how long the line program at an offset is (DWARF 5, 6.2.4).
    fn line_header(&mut self, dwarf: &Dwarf<Reader>, offset: usize) -> gimli::Result<bool> {
        let mut reader = dwarf.debug_line.reader().clone();
        reader.skip(offset)?;
        let (length, format) = reader.read_initial_length()?;
        if reader.read_u16()? >= 5 {
            // Sizes of addresses and of segments.
            reader.skip(2)?;
        }
        let header = reader.read_length(format)?;
        Ok(take(&mut self.line_programs, length as u64) && take(&mut self.line_headers, header as u64))
    }
}
