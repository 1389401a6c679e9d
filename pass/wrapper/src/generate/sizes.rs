//! Sizes of sections. The programs that share a trace (`--part`) have their functions and data where the program has
//! them: programs order by addresses, or make seeds of them. A part's code is smaller, since the bits of the others are
//! left out. So the sections of its objects are enlarged to those of the program's objects. Its unwind information may
//! be larger, so there is some room in the program's.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::mem::offset_of;
use std::path::Path;

use object::elf::{self, FileHeader64, SectionHeader64};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, U64, pod};
use serde::{Deserialize, Serialize};

use super::Failure;

type Header = SectionHeader64<Endianness>;
const ENDIAN: Endianness = Endianness::Little;
const UNWIND: &str = ".eh_frame";

/// A section that is loaded: its name, and its size in bytes.
type Section = (String, u64);

/// By module, the loaded sections of its object, in their order.
#[derive(Default, Serialize, Deserialize)]
pub struct Sizes(BTreeMap<u64, Vec<Section>>);

impl Sizes {
    /// Reads a file that [`Self::write`] has written.
    ///
    /// # Errors
    /// It cannot be read, or has another format.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// Writes all sizes into a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        Ok(fs::write(path, serde_json::to_vec(self)?)?)
    }

    /// Adds the object of a module.
    ///
    /// # Errors
    /// It is no object file.
    pub fn add(&mut self, module: u64, object: &[u8]) -> Result<(), String> {
        let sections = loaded(object)?.into_iter().map(|(_, name, section)| (name, section.sh_size(ENDIAN)));
        self.0.insert(module, sections.collect());
        Ok(())
    }

    /// Enlarges the sections of a module's object to those that were added for it, as far as they are smaller.
    ///
    /// # Errors
    /// It is no object file.
    pub fn fit(&self, module: u64, object: &mut Vec<u8>) -> Result<(), String> {
        let Some(wanted) = self.0.get(&module) else { return Ok(()) };
        // Sections of one name come in the same order.
        let mut by_name: HashMap<&str, Vec<u64>> = HashMap::new();
        wanted.iter().rev().for_each(|(name, size)| by_name.entry(name).or_default().push(*size));
        let mut grown = Vec::new();
        // Sections with equal flags are in memory one behind the other: where they should end, and where they do. A
        // section that is too large takes its room from those behind it.
        let mut ends: HashMap<u64, (u64, u64)> = HashMap::new();
        for (header, name, section) in loaded(object)? {
            let size = section.sh_size(ENDIAN);
            let wanted = by_name.get_mut(&*name).and_then(Vec::pop).unwrap_or(size);
            let align = section.sh_addralign(ENDIAN).max(1);
            let (should, does) = ends.entry(section.sh_flags(ENDIAN).0).or_default();
            *should = should.next_multiple_of(align) + wanted;
            *does = does.next_multiple_of(align) + size;
            // Linkers merge these, so that their sizes say nothing.
            let is_merged = section.sh_flags(ENDIAN).contains(elf::SHF_MERGE);
            let more = should.saturating_sub(*does);
            if more > 0 && size > 0 && !is_merged {
                *does += more;
                grown.push((header, name, section, more));
            }
        }
        for (header, name, section, more) in grown {
            grow(object, header, &name, &section, more).ok_or_else(|| format!("{name} is damaged"))?;
        }
        Ok(())
    }
}

/// Leaves room in an object of a program: its parts may have more unwind information.
///
/// # Errors
/// It is no object file.
pub fn leave_room(object: &mut Vec<u8>) -> Result<(), String> {
    let unwind = |(_, name, section): &(usize, String, Header)| name == UNWIND && section.sh_size(ENDIAN) > 0;
    if let Some((header, name, section)) = loaded(object)?.into_iter().find(unwind) {
        // Some bytes in a hundred were seen; most functions need none.
        let room = (section.sh_size(ENDIAN) / 16 + 32).next_multiple_of(8);
        grow(object, header, &name, &section, room).ok_or_else(|| format!("{name} is damaged"))?;
    }
    Ok(())
}

/// The sections that are loaded, each with the place of its header.
fn loaded(object: &[u8]) -> Result<Vec<(usize, String, Header)>, String> {
    let damaged = |error: object::read::Error| error.to_string();
    let header = FileHeader64::<Endianness>::parse(object).map_err(damaged)?;
    let sections = header.sections(ENDIAN, object).map_err(damaged)?;
    let first = usize::try_from(header.e_shoff(ENDIAN)).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for (index, section) in sections.enumerate() {
        if section.sh_flags(ENDIAN).contains(elf::SHF_ALLOC) {
            let name = sections.section_name(ENDIAN, section).map_err(damaged)?;
            let place = first + index.0 * size_of::<Header>();
            found.push((place, String::from_utf8_lossy(name).into_owned(), *section));
        }
    }
    Ok(found)
}

/// Adds bytes to the end of a section, which goes to the end of the file.
fn grow(object: &mut Vec<u8>, header: usize, name: &str, section: &Header, more: u64) -> Option<()> {
    let set = |object: &mut Vec<u8>, field: usize, value: u64| {
        let bytes = pod::bytes_of(&U64::new(ENDIAN, value)).to_vec();
        object.get_mut(header + field..)?.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        Some(())
    };
    let size = section.sh_size(ENDIAN);
    if section.sh_type(ENDIAN) != elf::SHT_NOBITS {
        let mut content = section.data(ENDIAN, &**object).ok()?.to_vec();
        let more = usize::try_from(more).ok()?;
        if name == UNWIND {
            lengthen_last(&mut content, more)?;
        } else {
            content.resize(content.len() + more, 0);
        }
        object.resize(object.len().next_multiple_of(64), 0);
        set(object, offset_of!(Header, sh_offset), object.len() as u64)?;
        object.extend(content);
    }
    set(object, offset_of!(Header, sh_size), size + more)
}

/// Makes the last entry of a section with unwind information longer by at least 8 bytes. What is added changes nothing:
/// the rule of a register, which has a long expression, is taken back at once. So unwinders do not pay for its length.
/// (GNU ld removes instructions that do nothing from the end of an entry.)
fn lengthen_last(section: &mut Vec<u8>, more: usize) -> Option<()> {
    const REMEMBER: u8 = 0x0a;
    const EXPRESSION: u8 = 0x10;
    // One that functions keep: on x86-64 rbx, on AArch64 x3.
    const REGISTER: u8 = 3;
    const NOTHING: u8 = 0x96;
    const RESTORE: u8 = 0x0b;
    let mut at = 0;
    loop {
        let length = u32::from_le_bytes(*section.get(at..)?.first_chunk()?);
        let next = at + 4 + length as usize;
        if next == section.len() {
            let longer = length.checked_add(u32::try_from(more).ok()?)?;
            section[at..at + 4].copy_from_slice(&longer.to_le_bytes());
            let expression = more.checked_sub(8).filter(|len| *len < 1 << 28)?;
            section.extend([REMEMBER, EXPRESSION, REGISTER]);
            section.extend(
                [0x80, 0x80, 0x80, 0]
                    .iter()
                    .zip(0..)
                    .map(|(more, n)| more | (expression >> (7 * n) & 0x7f) as u8),
            );
            section.extend(std::iter::repeat_n(NOTHING, expression));
            section.push(RESTORE);
            return Some(());
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use object::{Object, ObjectSection};

    use super::*;

    fn assembled(text: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.s"), text).unwrap();
        let status = Command::new("as").args(["a.s", "-o", "a.o"]).current_dir(&folder).status().unwrap();
        assert!(status.success());
        fs::read(folder.path().join("a.o")).unwrap()
    }

    fn code(first: usize, second: usize, third: usize) -> Vec<u8> {
        let function = |name: &str, len: usize| {
            let nops = ".cfi_adjust_cfa_offset 8\nnop\n".repeat(len);
            format!(
                ".section .text.{name},\"ax\",@progbits\n.p2align 4\n.globl {name}\n{name}:\n.cfi_startproc\n{nops}\
                 .cfi_endproc\n"
            )
        };
        assembled(&[function("f", first), function("g", second), function("h", third)].concat())
    }

    fn sizes(object: &[u8]) -> Vec<(String, u64)> {
        let file = object::File::parse(object).unwrap();
        let loaded = [".text.f", ".text.g", ".text.h", ".eh_frame"];
        loaded.map(|name| (name.to_owned(), file.section_by_name(name).unwrap().size())).into()
    }

    #[test]
    fn a_smaller_object_becomes_as_large() {
        let whole = code(40, 30, 50);
        let mut sizes_of_whole = Sizes::default();
        sizes_of_whole.add(7, &whole).unwrap();
        let mut part = code(20, 29, 3);
        sizes_of_whole.fit(7, &mut part).unwrap();
        assert_eq!(sizes(&part), sizes(&whole));
        // It is as it was otherwise, and linkers read it.
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.o"), &part).unwrap();
        for linker in ["ld", "ld.lld-19"] {
            let mut command = Command::new(linker);
            command.args(["-shared", "--eh-frame-hdr", "a.o", "-o", "a.so"]).current_dir(&folder);
            assert!(command.status().unwrap().success(), "{linker}");
            let linked = fs::read(folder.path().join("a.so")).unwrap();
            let file = object::File::parse(&*linked).unwrap();
            let size = |name| file.section_by_name(name).unwrap().size();
            assert_eq!(size(".text"), 48 + 32 + 50, "{linker}");
            let of_whole = sizes(&whole)[3].1;
            assert!((of_whole..of_whole + 8).contains(&size(".eh_frame")), "{linker}");
        }
    }

    #[test]
    fn a_part_may_have_more_unwind_information() {
        let mut whole = code(40, 30, 50);
        leave_room(&mut whole).unwrap();
        let mut sizes_of_whole = Sizes::default();
        sizes_of_whole.add(7, &whole).unwrap();
        let mut part = code(40, 40, 50);
        sizes_of_whole.fit(7, &mut part).unwrap();
        assert_eq!(sizes(&part)[3], sizes(&whole)[3]);
    }

    /// `g` is too large for its place, and `h` is at its place all the same if it leaves room.
    #[test]
    fn a_larger_section_takes_its_room_from_those_behind_it() {
        let mut sizes_of_whole = Sizes::default();
        sizes_of_whole.add(7, &code(16, 16, 64)).unwrap();
        let mut part = code(16, 20, 20);
        sizes_of_whole.fit(7, &mut part).unwrap();
        let sizes: Vec<u64> = sizes(&part).into_iter().map(|(_, size)| size).collect();
        assert_eq!(sizes[..3], [16, 20, 48]);
        let mut other = code(1, 1, 1);
        let before = other.clone();
        sizes_of_whole.fit(8, &mut other).unwrap();
        assert_eq!(other, before);
    }
}
