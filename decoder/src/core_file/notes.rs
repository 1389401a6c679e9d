//! The notes of a core file: registers, signal, and the files that were in memory.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::code::machine::{Machine, NoteRegisters};
use crate::core_file::crash_report::Signal;

pub(super) struct State {
    pub(super) number: i32,
    pub(super) registers: NoteRegisters,
}

pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The offset in the file, in bytes.
    pub(super) offset: u64,
    pub(super) name: PathBuf,
}

/// The content of a core file's notes.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) threads: Vec<State>,
    pub(super) process: Option<i32>,
    pub(super) signal: Option<Signal>,
    pub(super) auxiliary: HashMap<u64, u64>,
    pub(super) files: Vec<Mapping>,
}

impl Notes {
    pub(super) fn read(&mut self, machine: &dyn Machine, kind: u32, name: &[u8], content: &[u8]) {
        const NT_PRSTATUS: u32 = 1;
        const NT_PRPSINFO: u32 = 3;
        const NT_AUXV: u32 = 6;
        const NT_FILE: u32 = 0x4649_4c45;
        const NT_SIGINFO: u32 = 0x5349_4749;
        // Kinds of the kernel's own, such as further registers: they follow the thread's first ones.
        if name == b"LINUX"
            && let Some(thread) = self.threads.last_mut()
        {
            machine.more_registers(kind, content, &mut thread.registers);
        }
        if name != b"CORE" {
            return;
        }
        let long = |at: usize| {
            let bytes = content.get(at..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let int = |at: usize| Some(i32::from_le_bytes(*content.get(at..)?.first_chunk()?));
        match kind {
            // `struct elf_prstatus`: signal at 12, thread at 32, then the registers.
            NT_PRSTATUS => {
                if let (Some(number), Some(registers)) = (int(32), machine.note_registers(content)) {
                    if self.threads.is_empty() && self.signal.is_none() {
                        let number =
                            content.get(12..14).map_or(0, |b| i32::from(i16::from_le_bytes([b[0], b[1]])));
                        self.signal = (number != 0).then_some(Signal {
                            number,
                            code: None,
                            address: None,
                            sender: None,
                        });
                    }
                    self.threads.push(State { number, registers });
                }
            }
            NT_PRPSINFO => self.process = int(24),
            NT_AUXV => {
                let pairs = content.chunks_exact(16).map(|pair| {
                    let word = |at: usize| u64::from_le_bytes(*pair[at..].first_chunk().expect("8 bytes"));
                    (word(0), word(8))
                });
                self.auxiliary.extend(pairs);
            }
            // `siginfo_t`: signal, error, code; the address or the sender at 16. A core file has one for the
            // process, or one for each thread.
            NT_SIGINFO if self.threads.len() < 2 => {
                if let (Some(number @ 1..), Some(code)) = (int(0), int(8)) {
                    let fault = code > 0 && code != 0x80 && matches!(number, 4 | 5 | 7 | 8 | 11);
                    let sent = matches!(code, 0 | -1 | -6);
                    self.signal = Some(Signal {
                        number,
                        code: Some(code),
                        address: long(16).filter(|_| fault),
                        sender: int(16).filter(|_| sent),
                    });
                }
            }
            NT_FILE => self.files = mappings(content).unwrap_or_default(),
            _ => {}
        }
    }
}

/// Reads the mappings: their count, the size of a page; for each mapping start, end, offset in pages; then the
/// names.
fn mappings(content: &[u8]) -> Option<Vec<Mapping>> {
    use std::os::unix::ffi::OsStrExt;
    let mut words = content.chunks_exact(8).map(|w| u64::from_le_bytes(*w.first_chunk().expect("8 bytes")));
    let (count, page) = (usize::try_from(words.next()?).ok()?, words.next()?);
    let names = content.get(count.checked_mul(24)?.checked_add(16)?..)?;
    let mut names = names.split(|byte| *byte == 0);
    (0..count)
        .map(|_| {
            Some(Mapping {
                start: words.next()?,
                end: words.next()?,
                offset: words.next()?.checked_mul(page)?,
                name: std::ffi::OsStr::from_bytes(names.next()?).into(),
            })
        })
        .collect()
}
