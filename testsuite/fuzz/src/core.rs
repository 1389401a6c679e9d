//! Core files of a program with one thread.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use pcce::core::Core;

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "core", seeds, check };

const STACK: u64 = 0x7fff_0000_0000;

fn note(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut note: Vec<u8> =
        [5, content.len() as u32, kind].iter().flat_map(|word| word.to_le_bytes()).collect();
    note.extend(b"CORE\0\0\0\0");
    note.extend(content);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A file with registers, auxiliary vector, mapped files, and a piece of stack.
fn seed() -> Vec<u8> {
    let mut registers = [0_u64; 27];
    (registers[16], registers[19], registers[21]) = (0x40_1000, STACK + 64, STACK + 512);
    let mut status = vec![0; 112];
    status[32] = 42;
    status.extend(words(&registers));
    status.extend([0; 8]);
    let mut files = words(&[1, 4096, 0x40_0000, 0x40_2000, 0]);
    files.extend(b"/nowhere/app\0");
    let notes = [
        note(1, &status),
        note(6, &words(&[3, 0x40_0040, 33, 0, 0, 0])),
        note(0x4649_4c45, &files),
        note(0x5349_4749, &[11, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]),
    ]
    .concat();
    elf(4, &[(4, 0, &notes), (1, STACK, &words(&[STACK + 128; 80]))])
}

/// An ELF file of this type with these segments: type, address, content.
fn elf(kind: u8, segments: &[(u64, u64, &[u8])]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([kind, 0, 62, 0, 1, 0, 0, 0]);
    file.extend(words(&[0, 64, 0]));
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, segments.len() as u8, 0, 0, 0, 0, 0, 0, 0]);
    let mut at = 64 + 56 * segments.len() as u64;
    for (kind, address, content) in segments {
        let size = content.len() as u64;
        file.extend(words(&[kind | 4 << 32, at, *address, 0, size, size, 1]));
        at += size;
    }
    segments.iter().for_each(|(_, _, content)| file.extend(*content));
    file
}

/// A program that the core file may be of.
fn program() -> Vec<u8> {
    elf(2, &[(1, 0x40_0000, &[0x90; 64])])
}

fn seeds() -> Vec<Vec<u8>> {
    vec![seed(), seed()[..700].to_vec()]
}

fn check(input: &[u8]) {
    thread_local! {
        /// A file of this thread's own.
        static FILE: RefCell<(PathBuf, Vec<u8>)> = RefCell::new((
            std::env::temp_dir().join(format!("pcce-fuzz-{}-{:?}", std::process::id(), std::thread::current().id())),
            program(),
        ));
    }
    FILE.with_borrow(|(path, program)| {
        fs::write(path, input).expect("a temporary file can be written");
        let core = Core::open(path, "app".as_ref(), program.clone());
        let _ = fs::remove_file(path);
        match core.and_then(|core| core.report(None)) {
            Ok(report) => assert!(!report.threads.is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutations of what is refused at once would show little.
    #[test]
    fn the_seed_is_a_core_file() {
        let path = std::env::temp_dir().join(format!("pcce-fuzz-seed-{}", std::process::id()));
        fs::write(&path, seed()).unwrap();
        let core = Core::open(&path, "app".as_ref(), program());
        let _ = fs::remove_file(&path);
        let error = core.map(|core| core.report(None).map(|_| ())).map_err(|error| error.to_string());
        assert!(matches!(error, Ok(Err(pcce::core::CoreError::NoState(_)))), "{error:?}");
    }
}
