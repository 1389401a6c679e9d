//! Core files of a program with one thread, which is in the middle of its calls: `program.c`, compiled and run when it is first needed.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use pcce::Token;
use pcce::core::Core;

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "core", seeds, check };

/// Room on the stack below the pointer that is shown as well.
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

/// The program, and what it has written.
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

/// A file with registers, auxiliary vector, mapped files, stack, and thread-local block.
fn seed() -> Vec<u8> {
    let (_, memory) = program();
    let [rip, rsp, rbp, fs_base, stack, room, rest @ ..] = &memory[..] else {
        panic!("the program has written {} words", memory.len())
    };
    let (stack_words, rest) = rest.split_at(*room as usize);
    let (block, block_words) = (rest[0], &rest[2..]);
    let mut registers = [0_u64; 27];
    (registers[16], registers[19], registers[4], registers[21]) = (*rip, *rsp, *rbp, *fs_base);
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
    let skipped = ((rsp - stack) / 8 - BELOW) as usize;
    let stack_words = words(&stack_words[skipped..]);
    elf(4, &[(4, 0, &notes), (1, stack + 8 * skipped as u64, &stack_words), (1, block, &words(block_words))])
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

fn seeds() -> Vec<Vec<u8>> {
    vec![seed(), seed()[..700].to_vec()]
}

fn check(input: &[u8]) {
    thread_local! {
        /// A file of this thread's own.
        static FILE: RefCell<PathBuf> = RefCell::new(std::env::temp_dir().join(format!(
            "pcce-fuzz-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        )));
    }
    FILE.with_borrow(|path| {
        fs::write(path, input).expect("a temporary file can be written");
        let core = Core::open(path, "app".as_ref(), program().0.clone());
        let _ = fs::remove_file(path);
        match core.and_then(|core| core.report(None)) {
            Ok(report) => {
                assert!(!report.threads.is_empty());
                for context in report.threads.iter().filter_map(|t| t.context.as_deref()) {
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

    /// Mutations of what is refused at once would show little.
    #[test]
    fn the_seed_is_a_core_file_with_a_stack() {
        let path = std::env::temp_dir().join(format!("pcce-fuzz-seed-{}", std::process::id()));
        fs::write(&path, seed()).unwrap();
        let core = Core::open(&path, "app".as_ref(), program().0.clone());
        let _ = fs::remove_file(&path);
        let report = core.unwrap().report(None).unwrap();
        let token = Token::parse(report.threads[0].context.as_deref().unwrap()).unwrap();
        assert!(!token.damaged && !token.cut);
        // `dump` and `handler`, which has a frame; `recursive` below the signal, which has one, too.
        let point = token.point.unwrap();
        assert_eq!((point.id, point.addresses.len(), point.end), (7, 2, PointEnd::Pushed));
        let [(1, signal)] = &token.signals[..] else { panic!("{:?}", token.signals) };
        assert_eq!((signal.id, signal.addresses.len(), signal.end), (5, 1, PointEnd::Pushed));
        let frames: Vec<_> = token.frames.iter().map(|f| (f.id, f.count)).collect();
        assert_eq!(frames, [(3, 1), (1, 4)]);
        assert!(seed().len() < 4096, "{} bytes", seed().len());
    }
}
