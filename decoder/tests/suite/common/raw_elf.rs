//! ELF files as nobody writes them: sections and segments that need not fit together.

#![allow(dead_code)]

use object::elf;

/// A section.
#[derive(Clone, Default)]
pub struct Section {
    pub name: &'static str,
    pub kind: u32,
    pub flags: u64,
    pub address: u64,
    pub data: Vec<u8>,
    /// Takes its bytes from the section with this number, not from `data`.
    pub same_as: Option<usize>,
    pub link: u32,
    pub entry_size: u64,
}

/// A segment: kind, address, offset in the file, size.
pub type Segment = (u32, u64, u64, u64);

/// Where the content of the first section begins, if there are so many segments.
pub fn first_offset(segments: usize) -> u64 {
    64 + 56 * segments as u64
}

/// A file of a kind (`ET_EXEC`, `ET_CORE`); the sections are numbered from 1 on.
pub fn file(kind: u16, segments: &[Segment], sections: &[Section]) -> Vec<u8> {
    let mut out = vec![0; 64];
    let word = |out: &mut Vec<u8>, bytes: &[u8]| out.extend(bytes);
    for &(kind, address, offset, size) in segments {
        word(&mut out, &kind.to_le_bytes());
        word(&mut out, &4_u32.to_le_bytes());
        for value in [offset, address, address, size, size, 1] {
            word(&mut out, &value.to_le_bytes());
        }
    }
    let mut names = vec![0];
    let mut headers = vec![0; 64];
    let mut places: Vec<(u64, u64)> = vec![(0, 0)];
    let named =
        sections.iter().cloned().chain([Section { name: ".shstrtab", kind: 3, ..Section::default() }]);
    for (number, section) in named.enumerate() {
        let name = names.len() as u32;
        names.extend(section.name.as_bytes());
        names.push(0);
        let data = if number == sections.len() { &names } else { &section.data };
        let (offset, size) = section.same_as.map_or((out.len() as u64, data.len() as u64), |n| places[n]);
        if section.same_as.is_none() {
            out.extend(data);
        }
        places.push((offset, size));
        headers.extend(name.to_le_bytes());
        headers.extend(section.kind.to_le_bytes());
        for value in [section.flags, section.address, offset, size] {
            headers.extend(value.to_le_bytes());
        }
        headers.extend(section.link.to_le_bytes());
        headers.extend(0_u32.to_le_bytes());
        headers.extend(1_u64.to_le_bytes());
        headers.extend(section.entry_size.to_le_bytes());
    }
    let (start, count) = (out.len() as u64, sections.len() + 2);
    // More sections than fit into the field stand in the first header.
    if count >= 0xff00 {
        headers[32..40].copy_from_slice(&(count as u64).to_le_bytes());
        headers[40..44].copy_from_slice(&(count as u32 - 1).to_le_bytes());
    }
    if segments.len() >= 0xffff {
        headers[44..48].copy_from_slice(&(segments.len() as u32).to_le_bytes());
    }
    out.extend(headers);
    out[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let half =
        |out: &mut Vec<u8>, at: usize, value: u16| out[at..at + 2].copy_from_slice(&value.to_le_bytes());
    half(&mut out, 16, kind);
    half(&mut out, 18, elf::EM_X86_64.0);
    out[20] = 1;
    out[32..40].copy_from_slice(&64_u64.to_le_bytes());
    out[40..48].copy_from_slice(&start.to_le_bytes());
    half(&mut out, 52, 64);
    half(&mut out, 54, 56);
    half(&mut out, 56, segments.len().min(0xffff) as u16);
    half(&mut out, 58, 64);
    half(&mut out, 60, if count >= 0xff00 { 0 } else { count as u16 });
    half(&mut out, 62, if count >= 0xff00 { 0xffff } else { count as u16 - 1 });
    out
}

/// Entries of a symbol table: offset of the name, kind, number of the section, address, size.
pub fn symbols(list: impl Iterator<Item = (u32, u8, u16, u64, u64)>) -> Vec<u8> {
    let mut out = vec![0; 24];
    for (name, kind, section, address, size) in list {
        out.extend(name.to_le_bytes());
        out.extend([0x10 | kind, 0]);
        out.extend(section.to_le_bytes());
        out.extend(address.to_le_bytes());
        out.extend(size.to_le_bytes());
    }
    out
}

/// A note.
pub fn note(name: &str, kind: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [name.len() as u32 + 1, content.len() as u32, kind] {
        out.extend(word.to_le_bytes());
    }
    out.extend(name.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(content);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}
