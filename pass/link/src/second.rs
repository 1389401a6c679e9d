//! Checks that the second link has made what was planned: names lead to the bodies that the first link kept,
//! and the bytes are those of the generated objects.
//!
//! Generated code has other relocations than skeletons, so a linker could choose differently. Then frames
//! would be wrong.

use std::collections::{HashMap, HashSet};

use object::read::elf::ElfFile64;
use object::{Endianness, File, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex};
use pcce_abi::skeleton::sites_symbol;
use pcce_dictionary::code;

use crate::scratch::{Scratch, object_code};
use crate::{Error, Module};

/// The offset of the first address of a function in an object's [`code::SECTION`].
const FIRST_ADDRESS: u64 = 16;
const WORD: u64 = 8;

/// Describes a difference between the planned and the linked program; none if there is no difference. `image`
/// is the linker's output, and `objects` the generated code of each module, if it is known.
///
/// A stripped image does not say where its functions are, so only its exported symbols are compared.
///
/// # Errors
/// A file cannot be read.
pub fn difference(
    scratch: &Scratch,
    modules: &[Module],
    objects: &[Option<Vec<u8>>],
    image: &[u8],
) -> Result<Option<String>, Error> {
    let file = ElfFile64::<Endianness>::parse(image).map_err(damaged)?;
    let mut symbols: HashMap<&str, HashSet<u64>> = HashMap::new();
    let dynamic = file.dynamic_symbols().chain(file.symbols()).filter(|symbol| !symbol.is_undefined());
    for symbol in dynamic {
        let Ok(name) = symbol.name() else { continue };
        symbols.entry(name).or_default().insert(symbol.address());
    }
    let mut rows: HashMap<u64, Vec<u64>> = HashMap::new();
    if let Some(section) = file.section_by_name(code::SECTION) {
        let content = section.uncompressed_data().map_err(damaged)?;
        for (sites, list) in code::parse_section(&content)? {
            let row = rows.entry(sites).or_default();
            // The heads of further lists of a module are words of the object's section.
            if !row.is_empty() {
                row.extend([0; (FIRST_ADDRESS / WORD) as usize]);
            }
            row.extend(list);
        }
    }
    let own: Vec<Option<&Vec<u64>>> = modules
        .iter()
        .map(|module| rows.get(symbols.get(&*sites_symbol(module.id))?.iter().next()?))
        .collect();
    if let Some(what) = other_bodies(scratch, modules, &symbols, &own) {
        return Ok(Some(what));
    }
    for ((module, object), addresses) in modules.iter().zip(objects).zip(&own) {
        if let (Some(addresses), Some(object)) = (addresses, object)
            && let Some(what) = other_bytes(object, addresses, &file)?
        {
            return Ok(Some(format!("{what} of {}", module.name())));
        }
    }
    Ok(None)
}

fn damaged(what: object::read::Error) -> Error {
    Error::NotElf(what.to_string())
}

/// Finds a name that leads to another body than in the first link.
fn other_bodies(
    scratch: &Scratch,
    modules: &[Module],
    symbols: &HashMap<&str, HashSet<u64>>,
    own: &[Option<&Vec<u64>>],
) -> Option<String> {
    for (name, places, others) in scratch.owned() {
        // Local names belong to one module.
        let is_global = |&(module, function): &(usize, usize)| modules[module].functions()[function].external;
        if !places.iter().all(is_global) {
            continue;
        }
        // A file may not say where functions are, or the linker's garbage collector may have removed this
        // one.
        let address = |&(module, function): &(usize, usize)| own[module]?.get(function).copied();
        let (Some(now), Some(expected)) =
            (symbols.get(name), places.iter().map(address).collect::<Option<HashSet<u64>>>())
        else {
            continue;
        };
        let strangers = now.iter().filter(|address| !expected.contains(address)).count();
        if strangers > others {
            let (module, _) = places[0];
            return Some(format!(
                "the name `{name}` leads to another body than that of {}",
                modules[module].name()
            ));
        }
    }
    None
}

/// Finds a section of the object whose bytes differ from those at the addresses of its functions.
fn other_bytes(
    object: &[u8],
    addresses: &[u64],
    image: &ElfFile64<'_, Endianness>,
) -> Result<Option<String>, Error> {
    let file = File::parse(object).map_err(damaged)?;
    let machine = object_code(image)?;
    let Some(rows) = file.section_by_name(code::SECTION) else { return Ok(None) };
    let mut seen: HashSet<SectionIndex> = HashSet::new();
    for (at, relocation) in rows.relocations() {
        let Some(function) = at.checked_sub(FIRST_ADDRESS).map(|at| (at / WORD) as usize) else { continue };
        let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
        let symbol = file.symbol_by_index(symbol).map_err(damaged)?;
        let (Some(index), Some(&address)) = (symbol.section_index(), addresses.get(function)) else {
            continue;
        };
        // The linker's garbage collector has removed the function.
        if address == 0 || !seen.insert(index) {
            continue;
        }
        let section = file.section_by_index(index).map_err(damaged)?;
        let offset = symbol.address().wrapping_add_signed(relocation.addend());
        let mut code = section.data().map_err(damaged)?.to_vec();
        let start = address.wrapping_sub(offset);
        let linked = image.sections().find_map(|linked| linked.data_range(start, code.len() as u64).ok()?);
        let name = || format!("section {}", section.name().unwrap_or_default());
        let Some(mut linked) = linked.map(<[u8]>::to_vec) else {
            return Ok(Some(format!("the linked file ends within {}", name())));
        };
        for (at, relocation) in section.relocations() {
            let object::RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let written = (machine.written)(r_type.0);
            let [start, end] =
                [written.start, written.end].map(|offset| at.saturating_add_signed(offset as i64));
            for bytes in [&mut code, &mut linked] {
                let end = (end as usize).min(bytes.len());
                bytes[(start as usize).min(end)..end].fill(0);
            }
        }
        if let Some(at) = code.iter().zip(&linked).position(|(one, other)| one != other) {
            return Ok(Some(format!(
                "other code than was generated is at {:#x}, in {}",
                start + at as u64,
                name()
            )));
        }
    }
    Ok(None)
}
