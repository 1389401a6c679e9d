//! A compressed trace, read like one that is not: independent frames of zstd, and after them the table of zstd's
//! *seekable format*, which says where each frame begins.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use zeekstd::{BytesWrapper, SeekTable};

use crate::source::Source;

/// Bytes of a frame, uncompressed. Larger frames are compressed better; smaller ones are faster to read from the
/// middle.
pub const FRAME: usize = 1 << 20;
/// Bound on the bytes of a frame, uncompressed: other tools may make larger frames than [`FRAME`].
const MAX_FRAME: u64 = 1 << 26;
/// The number of frames that stay in memory: threads read at different places.
const MAX_KEPT: usize = 8;
/// The first bytes of files compressed by zstd.
const MAGIC: [u8; 4] = zstd_safe::MAGICNUMBER.to_le_bytes();
/// Bytes of the table after its entries, and before them; and of an entry, at most.
const FOOT: u64 = 9;
const HEAD: u64 = 8;
const ENTRY: u64 = 12;

#[derive(Debug)]
pub struct Compressed {
    source: Source,
    table: SeekTable,
    /// The frames that were read last, the newest last.
    kept: Mutex<Vec<(u32, Arc<[u8]>)>>,
}

/// Returns whether a file begins like one that zstd has compressed.
pub fn is_compressed(source: &Source) -> io::Result<bool> {
    let mut magic = [0; MAGIC.len()];
    Ok(source.read(&mut magic, 0)? == magic.len() && magic == MAGIC)
}

impl Compressed {
    /// None without a table.
    pub fn new(source: Source) -> Option<Self> {
        let len = source.len().ok()?;
        let mut foot = [0; FOOT as usize];
        let foot_at = len.checked_sub(FOOT)?;
        source.read(&mut foot, foot_at).ok()?;
        // An upper bound of the table's length. No more than that is read.
        let frames = u64::from(u32::from_le_bytes(foot[..4].try_into().expect("4 bytes")));
        let most = (frames * ENTRY + HEAD + FOOT).min(len);
        let mut table = vec![0; usize::try_from(most).ok()?];
        let read = source.read(&mut table, len - most).ok()?;
        let table = SeekTable::from_seekable(&mut BytesWrapper::new(&table[..read])).ok()?;
        (table.max_frame_size_decomp() <= MAX_FRAME && table.size_comp() <= len).then(|| Self {
            source,
            table,
            kept: Mutex::default(),
        })
    }

    /// The number of bytes, uncompressed.
    pub fn len(&self) -> u64 {
        self.table.size_decomp()
    }

    /// Fills the buffer from offset `at` on, as far as there are bytes. Returns how many there were.
    pub fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() && at + (read as u64) < self.len() {
            let at = at + read as u64;
            let frame = self.table.frame_index_decomp(at);
            let start = self.table.frame_start_decomp(frame).map_err(io::Error::other)?;
            let content = self.frame(frame)?;
            let rest = content.get((at - start) as usize..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            let len = rest.len().min(buffer.len() - read);
            buffer[read..read + len].copy_from_slice(&rest[..len]);
            read += len;
        }
        Ok(read)
    }

    /// A frame, uncompressed. A damaged frame is all zero, as if nothing had been written there.
    fn frame(&self, number: u32) -> io::Result<Arc<[u8]>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, frame)) = kept().iter().find(|(kept, _)| *kept == number) {
            return Ok(Arc::clone(frame));
        }
        let size = |size: zeekstd::Result<u64>| size.map(|size| size as usize).map_err(io::Error::other);
        let mut compressed = vec![0; size(self.table.frame_size_comp(number))?];
        let start = self.table.frame_start_comp(number).map_err(io::Error::other)?;
        let read = self.source.read(&mut compressed, start)?;
        let mut content = vec![0; size(self.table.frame_size_decomp(number))?];
        if zstd_safe::decompress(&mut content[..], &compressed[..read]) != Ok(content.len()) {
            content.fill(0);
        }
        let content: Arc<[u8]> = content.into();
        let mut kept = kept();
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push((number, Arc::clone(&content)));
        Ok(content)
    }
}
