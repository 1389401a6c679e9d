//! The end of a trace of calls: the bits that threads had pending when they died are in their blocks, and so in the
//! core file only.
//!
//! What is not certain is left out. A thread may have been stopped while its bits were being changed, or written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use iced_x86::{Decoder, DecoderOptions, Mnemonic, Register};
use object::{Object, ObjectSymbol};
use pcce_abi::trace::{Block, MOST, Special, TLS_SYMBOL, special};

use super::Core;
use super::notes::State;
use crate::code::tls_offset_of;

/// The trace that a process has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreTrace {
    /// Its file.
    pub path: PathBuf,
    /// Where in it the next word of a thread would go, and the bits that the thread had pending.
    pending: Vec<(u64, u64)>,
}

impl CoreTrace {
    /// Copies the trace, and puts the pending bits to the ends of the threads' streams.
    ///
    /// # Errors
    /// Those of the two files.
    pub fn write(&self, to: &Path) -> io::Result<()> {
        fs::copy(&self.path, to)?;
        let file = OpenOptions::new().read(true).write(true).open(to)?;
        for &(at, pending) in &self.pending {
            // They may be written already.
            if word(&file, at)? == 0 && word(&file, at + 8)? == 0 && word(&file, at - 8)? != pending {
                file.write_all_at(&pending.to_le_bytes(), at + 8)?;
                file.write_all_at(&special(Special::Short, 0).to_le_bytes(), at)?;
            }
        }
        Ok(())
    }
}

/// A word of a file; 0 behind its end.
fn word(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, at) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(u64::from_le_bytes(bytes)),
    }
}

impl Core {
    /// The trace of calls that the process has written, if it has. `debug`: the content of the program's debug file.
    #[must_use]
    pub fn trace(&self, debug: Option<&[u8]>) -> Option<CoreTrace> {
        let mut files = debug.into_iter().chain([&*self.images[0].bytes]);
        let offset = files.find_map(|bytes| tls_offset_of(&object::File::parse(bytes).ok()?, TLS_SYMBOL))?;
        let mut trace: Option<CoreTrace> = None;
        for thread in &self.threads {
            let block = thread.fs_base().wrapping_add_signed(offset);
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
            let whole = (2..MOST).contains(&pending) && next.is_multiple_of(8) && !self.is_changing(thread);
            if trace.path == mapped.name && whole {
                trace.pending.push((mapped.offset + (next - mapped.start), pending));
            }
        }
        trace
    }

    /// Whether the thread may have been about to change its pending bits, of which a part was done.
    fn is_changing(&self, thread: &State) -> bool {
        let pc = thread.pc();
        let Some(image) = self.images.iter().find(|image| image.contains(pc)) else { return false };
        let Some(bytes) = image.bytes_at(pc) else { return true };
        let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        let adds = matches!(instruction.mnemonic(), Mnemonic::Inc | Mnemonic::Add);
        if adds && instruction.memory_segment() == Register::FS {
            return true;
        }
        // In the tracer.
        let Ok(file) = object::File::parse(&*image.bytes) else { return true };
        let at = pc.wrapping_sub(image.bias);
        let mut symbols = file.symbols().chain(file.dynamic_symbols());
        symbols.any(|symbol| {
            (symbol.address()..symbol.address().saturating_add(symbol.size())).contains(&at)
                && symbol.name().is_ok_and(|name| name.contains("pcce_trace"))
        })
    }
}
