//! The end of a trace of calls: the bits that threads had pending when they died are in their blocks, and so
//! in the core file only.
//!
//! Bits that are not certain are left out. A thread may have been stopped while its bits were being changed,
//! or written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};
use pcce_abi::trace::{Block, FULL, MOST_BITS, Special, TLS_SYMBOL, functions, special};

use super::Core;
use super::notes::State;
use crate::code::elf::tls_offset_of;
use crate::code::machine::{Effect, Memory, Operand, Update};

/// The trace that a process has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreTrace {
    pub path: PathBuf,
    /// For each thread: the offset in the file at which its next word would go, and its pending bits.
    pending: Vec<(u64, u64)>,
}

impl CoreTrace {
    /// Copies the trace, and appends the pending bits to the threads' streams.
    pub fn write(&self, to: &Path) -> io::Result<()> {
        fs::copy(&self.path, to)?;
        let file = OpenOptions::new().read(true).write(true).open(to)?;
        for &(at, pending) in &self.pending {
            // The bits may be in the file already.
            if word(&file, at)? == 0 && word(&file, at + 8)? == 0 && word(&file, at - 8)? != pending {
                if pending >= FULL {
                    file.write_all_at(&pending.to_le_bytes(), at)?;
                    continue;
                }
                file.write_all_at(&pending.to_le_bytes(), at + 8)?;
                file.write_all_at(&special(Special::Short, 0).to_le_bytes(), at)?;
            }
        }
        Ok(())
    }
}

/// A word of a file; 0 past its end.
fn word(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, at) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(u64::from_le_bytes(bytes)),
    }
}

impl Core {
    /// The trace of calls that the process has written, if it has. `debug`: the content of the program's
    /// debug file.
    pub fn trace(&self, debug: Option<&[u8]>) -> Option<CoreTrace> {
        let mut files = debug.into_iter().chain([&*self.images[0].bytes]);
        let offset = files.find_map(|bytes| tls_offset_of(&object::File::parse(bytes).ok()?, TLS_SYMBOL))?;
        let mut trace: Option<CoreTrace> = None;
        for thread in &self.threads {
            let block = thread.registers.thread_pointer?.wrapping_add_signed(offset);
            let field = |offset: usize| self.word(block.wrapping_add(offset as u64));
            let (Some(pending), Some(next)) =
                (field(offset_of!(Block, pending)), field(offset_of!(Block, next)))
            else {
                continue;
            };
            let mapped = self.files.iter().find(|file| (file.start + 8..file.end).contains(&next));
            let Some(mapped) = mapped else { continue };
            let trace =
                trace.get_or_insert_with(|| CoreTrace { path: mapped.name.clone(), pending: Vec::new() });
            if trace.path != mapped.name || !next.is_multiple_of(8) || pending == 0 {
                continue;
            }
            if let Some(appended) = self.appends(thread, block)
                && pending + appended > 1
            {
                trace.pending.push((mapped.offset + (next - mapped.start), pending + appended));
            }
        }
        trace
    }

    /// The value that the next instruction of the thread adds to its pending bits, which have been moved up
    /// for it: emitted code appends so. None if they are being changed otherwise, or written.
    fn appends(&self, thread: &State, block: u64) -> Option<u64> {
        let pc = thread.registers.pc;
        let Some(image) = self.images.iter().find(|image| image.contains(pc)) else { return Some(0) };
        let instruction = self.machine.instruction(pc, image.bytes_at(pc)?);
        if let Some(Effect::Store { to, update: Update::Add(added), .. }) = instruction.map(|i| i.effect) {
            let offset = match to {
                Memory::ThreadPointer => Some(0),
                Memory::Thread(offset) => Some(offset),
                Memory::ThreadRegister(..) | Memory::ThreadArray => return None,
                _ => None,
            };
            if let Some(offset) = offset {
                let at = thread.registers.thread_pointer?.wrapping_add_signed(offset);
                return match added {
                    _ if at != block + offset_of!(Block, pending) as u64 => Some(0),
                    Operand::Constant(added) => Some(added).filter(|added| *added < 1 << MOST_BITS),
                    _ => None,
                };
            }
        }
        // Both of these functions change the pending bits by one instruction.
        let is_fast = |name: &str| matches!(name, functions::FLUSH | functions::ENTER);
        let file = object::File::parse(&*image.bytes).ok()?;
        let at = pc.wrapping_sub(image.bias);
        let mut symbols = file.symbols().chain(file.dynamic_symbols());
        let writes = symbols.any(|symbol| {
            (symbol.address()..symbol.address().saturating_add(symbol.size())).contains(&at)
                && symbol.name().is_ok_and(|name| name.contains("pcce_trace") && !is_fast(name))
        });
        (!writes).then_some(0)
    }
}
