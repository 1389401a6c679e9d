//! Linked programs with a dictionary section and a build id, made without a compiler.

#![allow(dead_code)]

use object::write::{Object, SectionId};
use object::{Architecture, BinaryFormat, Endianness, SectionFlags, SectionKind, elf};
use pcce_dictionary::{Dictionary, Encoding, fragment, linked, section};

/// How the section is stored.
#[derive(Clone, Copy, Debug)]
pub enum Compression {
    None,
    Zlib,
    Zstd,
}

/// What kind of file.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Relocatable = 1,
    Executable = 2,
    Shared = 3,
}

/// The content of the section, as the linker or the link step leaves it: a fragment for each module with encodings of
/// its own, and a linked record from the first module on that has one together with others.
pub fn section(dictionary: &Dictionary) -> Vec<u8> {
    let linked = dictionary.encodings.iter().filter(|encoding| encoding.module_count > 1);
    let modules = dictionary.modules.len() as u32;
    let range = |e: &Encoding| (e.first_module, e.first_module.saturating_add(e.module_count).min(modules));
    let (first, end) = linked.map(range).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default();
    let in_record = |e: &&Encoding| (first..end).contains(&e.first_module);
    let moved = |e: &Encoding, first| Encoding { first_module: e.first_module - first, ..e.clone() };
    let mut section = Vec::new();
    for (number, module) in (0..).zip(&dictionary.modules) {
        if number == first && first < end {
            let modules = &dictionary.modules[first as usize..end as usize];
            let encodings: Vec<_> =
                dictionary.encodings.iter().filter(in_record).map(|e| moved(e, first)).collect();
            section.extend(linked::to_bytes(modules, &encodings));
        }
        if (first..end).contains(&number) {
            continue;
        }
        let own = dictionary.encodings.iter().filter(|encoding| encoding.first_module == number);
        let own: Vec<_> = own.map(|e| moved(e, number)).collect();
        let mut bytes = fragment::to_bytes(module, &own);
        let at = section::SITES_ADDRESS_OFFSET;
        bytes[at..at + 8].copy_from_slice(&module.sites_address.to_le_bytes());
        section.extend(bytes);
    }
    section
}

/// A file with these sections; none of them that is `None`.
pub fn elf(content: Option<&[u8]>, build_id: Option<&[u8]>, compression: Compression, kind: Kind) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    if let Some(build_id) = build_id {
        add(&mut object, ".note.gnu.build-id", SectionKind::Note, &note(build_id), 4);
    }
    if let Some(content) = content {
        let (ch_type, packed) = match compression {
            Compression::None => (0, content.to_vec()),
            Compression::Zlib => (1, zlib(content)),
            Compression::Zstd => (2, zstd(content)),
        };
        if ch_type == 0 {
            add(&mut object, section::SECTION, SectionKind::Debug, content, 1);
        } else {
            let mut data = Vec::new();
            for word in [ch_type, 0] {
                data.extend(u32::to_le_bytes(word));
            }
            for word in [content.len() as u64, 1] {
                data.extend(word.to_le_bytes());
            }
            data.extend(packed);
            let section = add(&mut object, section::SECTION, SectionKind::Debug, &data, 8);
            let sh_flags = elf::SHF_COMPRESSED;
            object.section_mut(section).flags = SectionFlags::Elf { sh_type: elf::SHT_PROGBITS, sh_flags };
        }
    }
    let mut bytes = object.write().unwrap();
    bytes[16] = kind as u8; // e_type
    bytes
}

/// A program with a dictionary.
pub fn program(dictionary: &Dictionary, build_id: &[u8]) -> Vec<u8> {
    elf(Some(&section(dictionary)), Some(build_id), Compression::None, Kind::Executable)
}

/// A file with a section of this name beside its build id.
pub fn with_section(name: &str, content: &[u8], build_id: &[u8]) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    add(&mut object, ".note.gnu.build-id", SectionKind::Note, &note(build_id), 4);
    add(&mut object, name, SectionKind::Debug, content, 1);
    let mut bytes = object.write().unwrap();
    bytes[16] = Kind::Executable as u8; // e_type
    bytes
}

fn note(build_id: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    for word in [4, build_id.len() as u32, 3] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"GNU\0");
    note.extend(build_id);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

fn add(object: &mut Object<'_>, name: &str, kind: SectionKind, data: &[u8], align: u64) -> SectionId {
    let section = object.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
    object.append_section_data(section, data, align);
    section
}

fn zlib(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A Zstandard frame of one raw block (RFC 8878 §3.1.1).
fn zstd(content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 1 << 17, "one block holds 128 KiB");
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    let header = (content.len() as u32) << 3 | 1;
    frame.extend(&header.to_le_bytes()[..3]);
    frame.extend(content);
    frame
}
