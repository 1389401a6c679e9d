//! What the file says of itself: the dictionary of the whole, and another build id.

use object::elf;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, U64};
use pcce_dictionary::{Module, fragment, linked, section};
use pcce_model::Jumps;
use pcce_model::link::Shape;

use crate::Error;
use crate::bind::Bound;
use crate::image::Image;
use crate::modules::{LinkModule, Modules};

/// Puts them into the file.
///
/// # Errors
/// Its sections cannot be read.
pub fn write(image: &mut Image, modules: &Modules, bound: Bound) -> Result<(), Error> {
    let jumps = jumps(modules, &bound);
    let of_module = |(module, &base): (&LinkModule, &usize)| symbols(module, base, &bound, &jumps);
    let symbols: Vec<Module> = modules.list.iter().zip(&bound.bases).map(of_module).collect();
    let mut content = linked::to_bytes(&symbols, &[bound.encoding_rows]);
    for fragment in &modules.fragments {
        let mut bytes = fragment::to_bytes(&fragment.module, &fragment.encodings);
        let at = section::SITES_ADDRESS_OFFSET;
        bytes[at..at + 8].copy_from_slice(&fragment.module.sites_address.to_le_bytes());
        content.extend(bytes);
    }
    replace(image, section::SECTION, &content)?;
    change_build_id(image)
}

/// The calls that may be jumps.
fn jumps(modules: &Modules, bound: &Bound) -> Jumps {
    let mut jumps = Jumps::default();
    for (module, &base) in modules.list.iter().zip(&bound.bases) {
        for (function, row) in bound.program.functions[base..].iter().zip(&module.facts.calls) {
            let calls = function.calls.iter().zip(row).filter(|(_, code)| code.shape == Shape::Tail);
            calls.for_each(|(call, _)| jumps.add(call));
        }
    }
    jumps
}

/// The symbols of a module, with what the whole program says of them.
fn symbols(module: &LinkModule, base: usize, bound: &Bound, jumps: &Jumps) -> Module {
    let mut symbols = module.symbols.clone();
    for (f, row) in symbols.functions.iter_mut().enumerate() {
        let function = &bound.program.functions[base + f];
        row.silent = function.silent;
        row.tail_groups.clone_from(&function.tail_groups);
        row.jumped_to |= jumps.may_lead_to(base + f, function);
        for (call, code) in function.calls.iter().zip(&module.facts.calls[f]) {
            if let Some(site) = code.site {
                symbols.sites[site as usize].tail_group = call.tail_group;
            }
        }
    }
    symbols.leaving_groups.clone_from(&bound.program.leaving_groups);
    symbols
}

/// Replaces the content of a section that is not loaded: the new one stands at the end of the file, with a new table of
/// sections.
fn replace(image: &mut Image, name: &str, content: &[u8]) -> Result<(), Error> {
    let damaged = |what: object::read::Error| Error::NotElf(what.to_string());
    let endian = Endianness::Little;
    let data = &*image.bytes;
    let header = elf::FileHeader64::<Endianness>::parse(data).map_err(damaged)?;
    let table = header.sections(endian, data).map_err(damaged)?;
    let (index, _) = table.section_by_name(endian, name.as_bytes()).ok_or(Error::Nothing)?;
    let mut rows: Vec<elf::SectionHeader64<Endianness>> = table.iter().copied().collect();
    let at = image.bytes.len().next_multiple_of(8);
    let row = &mut rows[index.0];
    row.sh_offset = U64::new(endian, at as u64);
    row.sh_size = U64::new(endian, content.len() as u64);
    row.sh_flags = U64::new(endian, elf::SectionFlags(row.sh_flags(endian).0 & !elf::SHF_COMPRESSED.0));
    image.bytes.resize(at, 0);
    image.bytes.extend_from_slice(content);
    let table = image.bytes.len().next_multiple_of(8);
    image.bytes.resize(table, 0);
    image.bytes.extend_from_slice(object::bytes_of_slice(&rows));
    // e_shoff
    image.bytes[40..48].copy_from_slice(&(table as u64).to_le_bytes());
    Ok(())
}

/// Gives the file another build id: a digest of what it is now, the old one included.
fn change_build_id(image: &mut Image) -> Result<(), Error> {
    let name = ".note.gnu.build-id";
    let Some(section) = image.sections.iter().find(|section| section.name == name) else { return Ok(()) };
    let (start, len) = (section.addresses.start, image.content(section).len());
    // Behind the header and "GNU".
    let id = 16..len;
    let digest = digest(&image.bytes, id.len());
    image.overwrite(start + id.start as u64, &digest);
    Ok(())
}

/// A digest of `len` bytes.
fn digest(bytes: &[u8], len: usize) -> Vec<u8> {
    let words = (0..).flat_map(|round: u64| fnv1a(round, bytes).to_le_bytes());
    words.take(len).collect()
}

fn fnv1a(seed: u64, bytes: &[u8]) -> u64 {
    let seed = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes.iter().fold(seed, |h, &x| (h ^ u64::from(x)).wrapping_mul(0x0100_0000_01b3))
}
