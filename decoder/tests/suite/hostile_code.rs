//! Programs whose machine code, unwind tables, symbols or debug information are made to take memory and time, with
//! `pcce dict` under a limit of both.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_dictionary::section::SECTION;
use raw::{Section, note, symbols};

use crate::common;
use crate::common::elf;
use crate::common::raw_elf as raw;
use crate::limits::bounded;

const TEXT: u64 = 0x10_0000;
const DATA: u64 = 0x1000_0000;
const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const ALLOC: u64 = 2;
const ALLOC_EXEC: u64 = 6;
const FUNCTION: u8 = 2;

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile_code");
    fs::create_dir_all(&folder).expect("the folder is ours");
    folder
}

fn debug(name: &'static str, data: Vec<u8>) -> Section {
    Section { name, kind: PROGBITS, data, ..Section::default() }
}

fn alloc(name: &'static str, address: u64, data: Vec<u8>) -> Section {
    Section { name, kind: PROGBITS, flags: ALLOC, address, data, ..Section::default() }
}

/// A symbol table, which is section `number`, and its strings.
fn named(
    number: u32,
    list: impl Iterator<Item = (u32, u8, u16, u64, u64)>,
    strings: Vec<u8>,
) -> [Section; 2] {
    let data = symbols(list);
    let table = Section {
        name: ".symtab",
        kind: SYMTAB,
        link: number + 1,
        entry_size: 24,
        data,
        ..Section::default()
    };
    [table, Section { name: ".strtab", kind: STRTAB, data: strings, ..Section::default() }]
}

/// A program with this code, in which the dictionary's functions are at these addresses. Section 1 is the code; those
/// that are given come behind the first [`OWN`] ones.
fn program(text: Vec<u8>, functions: &[u64], more: Vec<Section>) -> Vec<u8> {
    let mut dictionary = common::app();
    dictionary.modules.truncate(1);
    let sites = dictionary.modules[0].sites_address;
    let count = dictionary.modules[0].functions.len();
    let mut code = Vec::new();
    let addresses = functions.iter().copied().chain(std::iter::repeat(0)).take(count);
    for word in [sites, count as u64].into_iter().chain(addresses) {
        code.extend(word.to_le_bytes());
    }
    let mut sections = vec![
        Section { flags: ALLOC_EXEC, ..alloc(".text", TEXT, text) },
        Section { kind: 7, ..alloc(".note.gnu.build-id", 0x400, note("GNU", 3, &common::APP)) },
        debug(SECTION, elf::section(&dictionary)),
        debug(pcce_dictionary::code::SECTION, code),
    ];
    assert_eq!(sections.len(), OWN as usize);
    sections.extend(more);
    raw::file(2, &[], &sections)
}

/// Sections that each program has.
const OWN: u32 = 4;

/// `pcce dict` makes a dictionary of it, within its limits.
fn is_read(name: &str, file: &[u8]) {
    assert!(file.len() < 10_000_000, "{name}: {} bytes", file.len());
    let folder = folder();
    fs::write(folder.join(name), file).expect("the folder is ours");
    let (status, messages) = bounded(&folder, &format!("dict {name} -o {name}.json"));
    assert_eq!(status, Some(0), "{name}: {messages}");
    for file in [name.to_owned(), format!("{name}.json")] {
        fs::remove_file(folder.join(file)).expect("the folder is ours");
    }
}

/// The symbol of the only function, and its string table.
fn one(len: u64) -> [Section; 2] {
    named(OWN + 1, [(1, FUNCTION, 1, TEXT, len)].into_iter(), b"\0f\0".to_vec())
}

#[test]
fn sections_within_one_another() {
    let mut sections: Vec<Section> = vec![alloc(".data", DATA, TEXT.to_le_bytes().repeat(1 << 17))];
    for i in 1..100_000 {
        let data = alloc("", DATA + (i << 21), Vec::new());
        sections.push(Section { same_as: Some(OWN as usize + 1), flags: 3, ..data });
    }
    is_read("sections", &program(vec![0xc3; 16], &[TEXT], sections));
}

#[test]
fn a_section_behind_the_end_of_the_file() {
    let more = [&one(16)[..], &[debug(".debug_line", vec![0; 16])]].concat();
    let number = OWN as usize + more.len();
    let mut file = program(vec![0xc3; 16], &[TEXT], more);
    let headers = u64::from_le_bytes(file[40..48].try_into().expect("8 bytes")) as usize;
    let (offset, end) = (headers + 64 * number + 24, file.len() as u64);
    file[offset..offset + 8].copy_from_slice(&end.to_le_bytes());
    file[offset + 8..offset + 16].copy_from_slice(&(u64::MAX / 4).to_le_bytes());
    is_read("behind", &file);
}

#[test]
fn symbols_that_share_names() {
    for (name, step) in [("same_names", 0), ("suffixes", 1)] {
        let functions = (0..200_000).map(|i| (1 + step * i as u32, FUNCTION, 1, TEXT + i, 1));
        let strings = [&b"\0"[..], &b"x".repeat(4_000_000), b"\0"].concat();
        let sections = named(OWN + 1, functions, strings);
        is_read(name, &program(vec![0xc3; 200_000], &[TEXT], sections.to_vec()));
    }
    // Names of a few kilobytes, of which each is another.
    let functions = (0..30_000_u64).map(|i| (1 + (i % 4000) as u32 * 500, FUNCTION, 1, TEXT + i, 1));
    let strings: Vec<u8> =
        (0..2_000_000_u32).map(|i| if i % 40_000 == 0 { 0 } else { b'a' + (i / 499 % 26) as u8 }).collect();
    let sections = named(OWN + 1, functions, strings);
    is_read("many_names", &program(vec![0xc3; 30_000], &[TEXT], sections.to_vec()));
}

#[test]
fn huge_functions() {
    let jumps = b"\xff\xe1".repeat(1_000_000);
    let stores: Vec<u8> = (0..160_000_u32)
        .flat_map(|i| {
            let store = b"\x48\xc7\x84\x24".iter().copied().chain((i * 8).wrapping_neg().to_le_bytes());
            store.chain(*b"\x01\0\0\0\x74\0")
        })
        .collect();
    let additions = b"\x64\x48\xff\x04\x25\xc0\xff\xff\xff".repeat(230_000);
    for (name, text) in [
        ("long", vec![0x90; 5_000_000]),
        ("one_byte_each", vec![0x90; 2_000_000]),
        ("jumps", jumps),
        ("stores", stores),
        ("additions", additions),
    ] {
        let len = text.len() as u64;
        let mut sections = one(len).to_vec();
        // The address of each of its instructions is in data.
        let taken = (0..500_000.min(len / 2)).flat_map(|i| (TEXT + 2 * i).to_le_bytes());
        sections.push(Section { flags: 3, ..alloc(".data", DATA, taken.collect()) });
        is_read(name, &program(text, &[TEXT], sections));
    }
}

#[test]
fn code_that_is_no_function() {
    // Jumps to each byte behind the function: call-less code that nothing names.
    const JUMPS: u32 = 300_000;
    let jumps = (0..JUMPS).flat_map(|i| {
        let to = (JUMPS - i - 1) * 6 + 1 + i * 8;
        [&b"\x0f\x84"[..], &to.to_le_bytes()].concat()
    });
    let text: Vec<u8> = jumps.chain([0xc3]).chain(std::iter::repeat_n(0x90, 7_000_000)).collect();
    is_read("lost", &program(text, &[TEXT], one(u64::from(JUMPS) * 6 + 1).to_vec()));
}

/// An unwind table of many functions, of which each has 16 bytes. `augmentation`: of all of them; `lsda`: their call
/// sites' address.
fn unwind_table(augmentation: &[u8], data: &[u8], lsda: Option<u32>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut entry = |content: &[u8]| {
        let len = content.len().next_multiple_of(4);
        out.extend((len as u32).to_le_bytes());
        out.extend(content);
        out.resize(out.len() + len - content.len(), 0);
        out.len()
    };
    let common = [&[0, 0, 0, 0, 1][..], augmentation, &[0, 1, 0x78, 16], data].concat();
    let mut at = entry(&common);
    for i in 0..150_000_u64 {
        let mut content = (at as u32 + 4).to_le_bytes().to_vec();
        content.extend((TEXT + 16 * i).to_le_bytes());
        content.extend(16_u64.to_le_bytes());
        if let Some(lsda) = lsda {
            content.push(4);
            content.extend(lsda.to_le_bytes());
        }
        at = entry(&content);
    }
    out
}

#[test]
fn unwind_tables_that_share_what_is_long() {
    let text = vec![0xc3; 16];
    let long = [&b"z"[..], &b"B".repeat(4_000_000)].concat();
    let table = alloc(".eh_frame", DATA, unwind_table(&long, &[0], None));
    is_read("augmentation", &program(text.clone(), &[TEXT], vec![table]));
    // 1,000,000 calls, in the list of each function: no base, no types, numbers of one to four bytes.
    let table = alloc(".eh_frame", DATA, unwind_table(b"zL", &[1, 3], Some(0x2000_0000)));
    let mut calls = vec![0xff, 0xff, 1, 0x80, 0x92, 0xf4, 1];
    calls.extend(b"\x01\x01\x01\x00".repeat(1_000_000));
    let exceptions = alloc(".gcc_except_table", 0x2000_0000, calls);
    is_read("call_sites", &program(text, &[TEXT], vec![table, exceptions]));
}

/// Debug information: abbreviations, entries, lines.
fn with_debug(name: &str, abbreviations: Vec<u8>, info: Vec<u8>, lines: Vec<u8>) {
    let mut sections = one(16).to_vec();
    sections.extend([
        debug(".debug_abbrev", abbreviations),
        debug(".debug_info", info),
        debug(".debug_line", lines),
    ]);
    is_read(name, &program(vec![0xc3; 16], &[TEXT], sections));
}

/// A unit of DWARF 4 with these entries.
fn unit(abbreviations: u32, entries: &[u8]) -> Vec<u8> {
    let mut out = (entries.len() as u32 + 7).to_le_bytes().to_vec();
    out.extend(4_u16.to_le_bytes());
    out.extend(abbreviations.to_le_bytes());
    out.push(8);
    out.extend(entries);
    out
}

#[test]
fn debug_information_within_itself() {
    // A unit and a function from TEXT on (low_pc, high_pc as a length), and inlined calls without attributes.
    let root = b"\x01\x11\x01\x11\x01\x12\x0b\0\0";
    let function = b"\x02\x2e\x01\x11\x01\x12\x0b\0\0";
    let inlined = b"\x03\x1d\x01\0\0";
    let abbreviations = [&root[..], function, inlined, b"\0"].concat();
    let place = |code: u8| [&[code][..], &TEXT.to_le_bytes(), &[16]].concat();
    let nested = [place(1), place(2), vec![3; 5_000_000]].concat();
    with_debug("nested", abbreviations.clone(), unit(0, &nested), Vec::new());
    let beside = [place(1), place(2), b"\x03\0".repeat(4_000_000)].concat();
    with_debug("beside", abbreviations, unit(0, &beside), Vec::new());

    // Many units, with a table of abbreviations each that goes on to the end.
    let table: Vec<u8> = (0..200_000_u32)
        .flat_map(|i| {
            [(i & 0x7f) as u8 | 0x80, (i >> 7 & 0x7f) as u8 | 0x80, (i >> 14) as u8 & 0x7f, 0x11, 0, 0, 0]
        })
        .collect();
    let units: Vec<u8> = (0..200_000).flat_map(|i| unit(7 * i, &[])).collect();
    with_debug("abbreviations", [table, vec![0]].concat(), units, Vec::new());

    // Many units with the same, long, program of lines.
    let with_lines = [&root[..6], b"\x12\x0b\x10\x17\0\0\0"].concat();
    let entries = [place(1), vec![0; 4]].concat();
    let units: Vec<u8> = (0..200_000).flat_map(|_| unit(0, &entries)).collect();
    let header = b"\x01\x01\x01\xfb\x0e\x0d\0\x01\x01\x01\x01\0\0\0\x01\0\0\x01\0";
    let files = [&header[..], &b"f\0\0\0\0".repeat(200_000), b"\0"].concat();
    let mut program = [&4_u16.to_le_bytes()[..], &(files.len() as u32).to_le_bytes(), &files].concat();
    program.extend(
        [&b"\0\x09\x02"[..], &TEXT.to_le_bytes(), &b"\x20".repeat(1_000_000), b"\0\x01\x01"].concat(),
    );
    let lines = [&(program.len() as u32).to_le_bytes()[..], &program].concat();
    with_debug("lines", with_lines, units, lines);
}
