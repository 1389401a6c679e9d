//! Core files of a program with one thread, which is in the middle of its calls: `program.c`, compiled and run when it
//! is first needed.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use pcce::Token;
use pcce::core_file::Core;

use crate::Target;
use crate::machine::{E_MACHINE, REGISTERS, WRITTEN};

pub(crate) const TARGET: Target = Target { name: "core", seeds, check };

/// The first byte of an input tells its kind: a file, or changes of words in the program's file.
const FILE: u8 = 0;
const CHANGES: u8 = 1;
/// Bytes of a change.
const CHANGE: usize = 10;

/// Words below the stack pointer that the file has, too.
const BELOW: u64 = 4;

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

/// The program, and its output.
fn program() -> &'static (Vec<u8>, Vec<u64>) {
    static PROGRAM: OnceLock<(Vec<u8>, Vec<u64>)> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("pcce-fuzz-program-{}", std::process::id()));
        let flags =
            ["-O1", "-fno-omit-frame-pointer", "-fno-stack-protector", "-fasynchronous-unwind-tables"];
        let link = ["-static", "-nostdlib", "-no-pie", "-fno-pie", "-Wl,--eh-frame-hdr,--build-id=none"];
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/program.c");
        let mut compiler = Command::new("cc");
        let compiled = compiler.args(flags).args(link).arg(source).arg("-o").arg(&path).status();
        assert!(compiled.is_ok_and(|status| status.success()), "cc does not compile {source}");
        let output = Command::new(&path).output().expect("it was just made");
        let bytes = fs::read(&path).expect("it was just made");
        let _ = fs::remove_file(&path);
        let words = output.stdout.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes")));
        (bytes, words.collect())
    })
}

/// The words of a core file with the state of a thread and its stack.
struct Memory {
    /// Instruction, stack pointer, frame pointer, thread pointer.
    registers: [u64; 4],
    /// The address of the first word, a little below the stack pointer, and the words.
    stack: (u64, Vec<u64>),
    block: (u64, Vec<u64>),
}

impl Memory {
    /// Reads the output of the program.
    fn of_program() -> Self {
        let (_, memory) = program();
        let [instruction, stack_pointer, frame_pointer, thread, stack, room, rest @ ..] = &memory[..] else {
            panic!("the program has written {} words", memory.len())
        };
        let (stack_words, rest) = rest.split_at(*room as usize);
        let skipped = (stack_pointer - stack) / 8 - BELOW;
        Self {
            registers: [*instruction, *stack_pointer, *frame_pointer, *thread],
            stack: (stack + 8 * skipped, stack_words[skipped as usize..].to_vec()),
            block: (rest[0], rest[2..].to_vec()),
        }
    }

    /// Changes words: for each the index, 1 byte; how, 1 byte; a value, 8 bytes.
    fn change(&mut self, changes: &[u8]) {
        let stack = self.stack.0;
        for change in changes.chunks_exact(CHANGE) {
            let mut all: Vec<&mut u64> =
                self.registers.iter_mut().chain(&mut self.block.1).chain(&mut self.stack.1).collect();
            let index = usize::from(change[0]) % all.len();
            let value = u64::from_le_bytes(change[2..].try_into().expect("8 bytes"));
            let word = &mut all[index];
            **word = match change[1] % 4 {
                0 => value,
                1 => word.wrapping_add(value as i8 as u64),
                2 => word.wrapping_add((value as i8 as u64).wrapping_mul(8)),
                // A place on the stack.
                _ => stack.wrapping_add(8 * (value & 0xff)),
            };
        }
    }

    /// A file with registers, auxiliary vector, mapped files, stack, and thread-local block.
    fn file(&self) -> Vec<u8> {
        let mut registers = [0_u64; REGISTERS];
        for (register, value) in WRITTEN.into_iter().zip(self.registers) {
            registers[register] = value;
        }
        let mut status = vec![0; 112];
        status[32] = 42;
        status.extend(words(&registers));
        status.extend([0; 8]);
        let mut files = words(&[1, 4096, 0x40_0000, 0x40_1000, 0]);
        files.extend(b"/nowhere/app\0");
        let notes = [
            note(1, &status),
            note(6, &words(&[3, 0x40_0040, 33, 0, 0, 0])),
            note(0x4649_4c45, &files),
            note(0x5349_4749, &[11, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]),
        ]
        .concat();
        let (stack, block) = (words(&self.stack.1), words(&self.block.1));
        elf(4, &[(4, 0, &notes), (1, self.stack.0, &stack), (1, self.block.0, &block)])
    }
}

/// An ELF file of this type with these segments: type, address, content.
fn elf(kind: u8, segments: &[(u64, u64, &[u8])]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([kind, 0, E_MACHINE, 0, 1, 0, 0, 0]);
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

fn seeds() -> Vec<Vec<u8>> {
    let file = Memory::of_program().file();
    let mut seeds: Vec<Vec<u8>> =
        [&file[..], &file[..700]].map(|file| [&[FILE], file].concat()).into_iter().collect();
    for word in 0..100 {
        for how in 0..4 {
            let mut seed = vec![CHANGES, word, how, word.wrapping_mul(37)];
            seed.resize(1 + CHANGE, 0);
            seeds.push(seed);
        }
    }
    seeds
}

fn check(input: &[u8]) {
    let changed;
    let file = match input {
        [FILE, file @ ..] => file,
        [CHANGES, changes @ ..] => {
            let mut memory = Memory::of_program();
            memory.change(changes);
            changed = memory.file();
            &changed
        }
        _ => return,
    };
    thread_local! {
        /// A file of this thread's own.
        static PLACE: RefCell<PathBuf> = RefCell::new(std::env::temp_dir().join(format!(
            "pcce-fuzz-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        )));
    }
    PLACE.with_borrow(|path| {
        fs::write(path, file).expect("a temporary file can be written");
        let core = Core::open(path, "app".as_ref(), program().0.clone());
        let _ = fs::remove_file(path);
        match core.and_then(|core| core.report(None)) {
            Ok(report) => {
                assert!(!report.threads.is_empty());
                for context in report.threads.iter().filter_map(|t| t.context.token()) {
                    let token = context.split('+').next().expect("a word");
                    assert!(Token::parse(token).is_ok(), "{context}");
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}

#[cfg(test)]
mod tests {
    use pcce::token::PointEnd;

    use super::*;

    /// Mutations of a refused file would test little.
    #[test]
    fn the_seed_is_a_core_file_with_a_stack() {
        let path = std::env::temp_dir().join(format!("pcce-fuzz-seed-{}", std::process::id()));
        fs::write(&path, Memory::of_program().file()).unwrap();
        let core = Core::open(&path, "app".as_ref(), program().0.clone());
        let _ = fs::remove_file(&path);
        let report = core.unwrap().report(None).unwrap();
        let token = Token::parse(report.threads[0].context.token().unwrap()).unwrap();
        assert!(!token.damaged && !token.cut);
        // `dump` and `handler`, which has a frame; `recursive` below the signal, which has one, too.
        let point = token.point.unwrap();
        assert_eq!((point.id, point.addresses.len(), point.end), (7, 2, PointEnd::Pushed));
        let [(1, signal)] = &token.signals[..] else { panic!("{:?}", token.signals) };
        assert_eq!((signal.id, signal.addresses.len(), signal.end), (5, 1, PointEnd::Pushed));
        let frames: Vec<_> = token.frames.iter().map(|f| (f.id, f.count)).collect();
        assert_eq!(frames, [(3, 1), (1, 4)]);
        let length = Memory::of_program().file().len();
        assert!(length < 4096, "{length} bytes");
    }
}
