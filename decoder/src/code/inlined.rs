//! The functions into which a function was inlined, from the debug information.

use std::collections::{BTreeSet, HashMap, HashSet};

use gimli::{AttributeValue, Reader as _, Unit, UnitRef};

use super::dwarf::{Reader, debug_information};
use super::elf::stored;
use crate::names::Wanted;
use crate::names::demangle;

#[derive(Default)]
struct Entry {
    /// The linkage name, or else the bare name.
    name: Option<Reader>,
    /// The entry that has its name: a declaration, or what inlined calls refer to.
    origin: Option<usize>,
}

/// The names, as in the source, of the functions into which the wanted functions were inlined. None without
/// debug information that can be read.
pub(crate) fn inlined_into(file: &object::File<'_>, wanted: &Wanted) -> Option<BTreeSet<String>> {
    let dwarf = debug_information(file, stored(file)?)?;
    let mut units: Vec<Unit<Reader>> = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().ok()? {
        units.push(dwarf.unit(header).ok()?);
    }
    if units.is_empty() {
        return None;
    }
    let mut entries = HashMap::new();
    for unit in units.iter().map(|unit| unit.unit_ref(&dwarf)) {
        each(unit, |offset, _, tag, attributes| {
            if tag == gimli::DW_TAG_subprogram {
                entries.insert(offset, entry(unit, attributes));
            }
        })?;
    }
    let fits =
        |offset: &usize| name(&entries, *offset).is_some_and(|name| wanted.fits(&name, &demangle(&name)));
    let meant: HashSet<usize> = entries.keys().copied().filter(fits).collect();
    let mut into = BTreeSet::new();
    for unit in units.iter().map(|unit| unit.unit_ref(&dwarf)) {
        let mut around: Vec<(isize, usize)> = Vec::new();
        each(unit, |offset, depth, tag, attributes| {
            while around.last().is_some_and(|(outer, _)| *outer >= depth) {
                around.pop();
            }
            match tag {
                gimli::DW_TAG_subprogram => around.push((depth, offset)),
                gimli::DW_TAG_inlined_subroutine => {
                    let entry = entry(unit, attributes);
                    if entry.origin.is_some_and(|origin| meant.contains(&origin))
                        && let Some((_, caller)) = around.last()
                    {
                        into.extend(name(&entries, *caller).map(|name| demangle(&name)));
                    }
                }
                _ => {}
            }
        })?;
    }
    Some(into)
}

/// Calls `visit` for each entry of a unit, with its offset, its depth, its tag and its attributes.
fn each(
    unit: UnitRef<'_, Reader>,
    mut visit: impl FnMut(usize, isize, gimli::DwTag, &[gimli::Attribute<Reader>]),
) -> Option<()> {
    let mut entries = unit.entries_raw(None).ok()?;
    let mut attributes = Vec::new();
    while !entries.is_empty() {
        let (offset, depth) = (entries.next_offset(), entries.next_depth());
        let Some(entry) = entries.read_abbreviation().ok()? else { continue };
        if !matches!(entry.tag(), gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine) {
            entries.skip_attributes(entry.attributes()).ok()?;
            continue;
        }
        attributes.clear();
        for attribute in entry.attributes() {
            attributes.push(entries.read_attribute(*attribute).ok()?);
        }
        visit(offset.to_debug_info_offset(&unit.header)?.0, depth, entry.tag(), &attributes);
    }
    Some(())
}

fn entry(unit: UnitRef<'_, Reader>, attributes: &[gimli::Attribute<Reader>]) -> Entry {
    let mut found = Entry::default();
    let text = |value| unit.attr_string(value).ok();
    for attribute in attributes {
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name, value) => found.name = text(value),
            (gimli::DW_AT_name, value) if found.name.is_none() => found.name = text(value),
            (gimli::DW_AT_specification | gimli::DW_AT_abstract_origin, AttributeValue::UnitRef(offset)) => {
                found.origin = offset.to_debug_info_offset(&unit.header).map(|offset| offset.0);
            }
            (
                gimli::DW_AT_specification | gimli::DW_AT_abstract_origin,
                AttributeValue::DebugInfoRef(offset),
            ) => found.origin = Some(offset.0),
            _ => {}
        }
    }
    found
}

/// The name of the function whose entry is at an offset.
fn name(entries: &HashMap<usize, Entry>, mut offset: usize) -> Option<String> {
    // The longest chain: a copy of a function, its abstract function, and the declaration.
    for _ in 0..4 {
        let entry = entries.get(&offset)?;
        if let Some(name) = &entry.name {
            return Some(name.to_string_lossy().ok()?.into_owned());
        }
        offset = entry.origin?;
    }
    None
}
