//! Core files and their programs that are made to take memory and time, with `pcce core` under a limit of both.

use std::fs;
use std::path::{Path, PathBuf};

use object::elf::{PT_GNU_EH_FRAME, PT_LOAD, PT_NOTE, PT_TLS};
use pcce_abi::layout;
use pcce_dictionary::section::SECTION;
use raw::{Section, Segment, first_offset, note, symbols};

use crate::common;
use crate::common::elf;
use crate::common::raw_elf as raw;
use crate::limits::bounded;

const IMAGE: u64 = 0x10_0000;
/// Memory that the core file holds: the thread's block, then its stack.
const MEMORY: u64 = 0x7000_0000;
const BLOCK: u64 = MEMORY + 0x100;
const STACK: u64 = MEMORY + 0x1000;
/// The size of the thread-local storage of the program, which is the block.
const TLS: u64 = 0x100;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile_core").join(name);
    fs::create_dir_all(&folder).expect("the folder is ours");
    folder
}

/// A program: `loaded` lies at [`IMAGE`], and in it, from an offset on, the index of the unwind tables.
fn program(loaded: Vec<u8>, index: Option<(u64, u64)>, more: &[Segment]) -> Vec<u8> {
    let count = 2 + usize::from(index.is_some()) + more.len();
    let at = first_offset(count);
    let mut segments = vec![(PT_LOAD.0, IMAGE, at, loaded.len() as u64), (PT_TLS.0, IMAGE, at, TLS)];
    segments.extend(index.map(|(from, len)| (PT_GNU_EH_FRAME.0, IMAGE + from, at + from, len)));
    segments.extend(more);
    let section = |name, kind, data| Section { name, kind, data, ..Section::default() };
    let data = symbols([(1, 6, 1, 0, TLS)].into_iter());
    let names = [b"\0", pcce_abi::TLS_SYMBOL.as_bytes(), b"\0"].concat();
    let sections = [
        Section { flags: 6, address: IMAGE, ..section(".text", 1, loaded) },
        Section {
            flags: 2,
            address: 0x400,
            ..section(".note.gnu.build-id", 7, note("GNU", 3, &common::APP))
        },
        section(SECTION, 1, elf::section(&common::app())),
        Section { link: 5, entry_size: 24, ..section(".symtab", 2, data) },
        section(".strtab", 3, names),
    ];
    raw::file(2, &segments, &sections)
}

/// The registers of a thread at an instruction of the image.
fn thread(number: u32, pc: u64) -> Vec<u8> {
    let mut registers = [0_u64; 27];
    registers[16] = pc;
    registers[19] = STACK;
    // The block ends at the thread pointer.
    registers[21] = BLOCK + TLS;
    let mut content = vec![0; 112];
    content[12] = 11;
    content[32..36].copy_from_slice(&number.to_le_bytes());
    content.extend(registers.iter().flat_map(|register| register.to_le_bytes()));
    content.resize(336, 0);
    note("CORE", 1, &content)
}

/// The vector that says where the program's headers are in memory.
fn auxiliary() -> Vec<u8> {
    note("CORE", 6, &[3_u64.to_le_bytes(), (IMAGE + 64).to_le_bytes()].concat())
}

/// A core file with these notes, which are there so many times, and with memory from [`MEMORY`] on: the block with this
/// innermost frame, and the stack.
fn core(notes: Vec<u8>, times: usize, top: u64, stack: Vec<u8>) -> Vec<u8> {
    let mut memory = vec![0; (STACK - MEMORY) as usize];
    let end = STACK + stack.len() as u64;
    for (field, value) in
        [(layout::TLS_TOP, top), (layout::TLS_STACK_LOW, STACK), (layout::TLS_STACK_HIGH, end)]
    {
        let at = (BLOCK - MEMORY + field) as usize;
        memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    memory.extend(stack);
    let at = first_offset(times + 1);
    let mut segments: Vec<Segment> = vec![(PT_NOTE.0, 0, at, notes.len() as u64); times];
    segments.push((PT_LOAD.0, MEMORY, at + notes.len() as u64, memory.len() as u64));
    let section = |data| Section { kind: 1, data, ..Section::default() };
    raw::file(4, &segments, &[section(notes), section(memory)])
}

/// `pcce core` ends within its limits, with this status.
fn ends(name: &str, program: &[u8], core: &[u8], expected: i32) {
    assert!(program.len() < 10_000_000 && core.len() < 10_000_000, "{name}: too large");
    let folder = folder(name);
    fs::write(folder.join("program"), program).expect("the folder is ours");
    fs::write(folder.join("core"), core).expect("the folder is ours");
    let (status, messages) = bounded(&folder, "core --format json program core > out");
    assert_eq!(status, Some(expected), "{name}: {messages}");
    fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn threads_that_share_a_chain() {
    const FRAMES: u64 = 100_000;
    let stack = (0..FRAMES).flat_map(|i| {
        let prev = if i + 1 < FRAMES { STACK + 32 * (i + 1) } else { 0 };
        // Site, id, and the interned number.
        [prev, i, IMAGE + i % 64, 0].into_iter().flat_map(u64::to_le_bytes)
    });
    let notes = [auxiliary(), (0..15_000).flat_map(|i| thread(i, IMAGE)).collect()].concat();
    // The chains are cut, and name no sites of the program's dictionary.
    ends("chain", &program(vec![0xc3; 256], None, &[]), &core(notes, 1, STACK, stack.collect()), 2);
}

#[test]
fn notes_that_are_there_again_and_again() {
    let notes = [auxiliary(), thread(1, IMAGE), note("CORE", 2, b"1234").repeat(250_000)].concat();
    ends("notes", &program(vec![0xc3; 256], None, &[]), &core(notes, 60_000, 0, vec![0; 64]), 0);
}

#[test]
fn libraries_that_are_no_files() {
    let pipe = folder("pipe.so").with_extension("fifo");
    let _ = fs::remove_file(&pipe);
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("there is mkfifo");
    assert!(made.success());
    let pipe = pipe.display().to_string();
    let names = ["/dev/zero", &pipe, "/proc/self/mem"];
    let mut files: Vec<u8> = [names.len() as u64, 4096].into_iter().flat_map(u64::to_le_bytes).collect();
    for i in 0..names.len() as u64 {
        let start = 0x5000_0000 + (i << 20);
        files.extend([start, start + 4096, 0].into_iter().flat_map(u64::to_le_bytes));
    }
    files.extend(names.iter().flat_map(|name| name.bytes().chain([0])));
    let notes = [auxiliary(), thread(1, IMAGE), note("CORE", 0x4649_4c45, &files)].concat();
    ends("pipes", &program(vec![0xc3; 256], None, &[]), &core(notes, 1, 0, vec![0; 64]), 0);
}

#[test]
fn programs_that_seem_huge() {
    let far = program(vec![0xc3; 256], None, &[(PT_LOAD.0, 8 << 30, 0, 64)]);
    let notes = [auxiliary(), thread(1, IMAGE)].concat();
    ends("far", &far, &core(notes.clone(), 1, 0, vec![0; 64]), 2);
    let again = vec![(PT_LOAD.0, IMAGE, first_offset(60_000), 5_000_000); 60_000 - 2];
    ends("again", &program(vec![0xc3; 5_000_000], None, &again), &core(notes, 1, 0, vec![0; 64]), 2);
}

#[test]
fn unwind_tables_with_long_entries() {
    let entry = |content: &[u8]| [&(content.len() as u32).to_le_bytes()[..], content].concat();
    let words = |values: &[u64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    // The frame is 16 bytes, the return address below its end.
    let common = entry(&[0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 16, 0x90, 1, 0, 0]);
    let mut content = (common.len() as u32 + 4).to_le_bytes().to_vec();
    content.extend(words(&[IMAGE, 256]));
    content.resize(6_000_000, 0);
    let tables = [common.clone(), entry(&content)].concat();
    // Version; how the address of the tables, their number, and the rows are written: 8, 4, and 8 bytes.
    let start = 256;
    let header = [1, 4, 3, 4];
    let at = IMAGE + start + 32;
    let index =
        [&header[..], &words(&[at]), &1_u32.to_le_bytes(), &words(&[IMAGE, at + common.len() as u64])]
            .concat();
    assert_eq!(index.len(), 32);
    let loaded = [vec![0xc3; start as usize], index, tables].concat();
    let notes = [auxiliary(), (0..8_000).flat_map(|i| thread(i, IMAGE)).collect()].concat();
    let stack = words(&[IMAGE + 1; 1 << 10]);
    ends("unwinding", &program(loaded, Some((start, 32)), &[]), &core(notes, 1, 0, stack), 0);
}
