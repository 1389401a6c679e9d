//! The file of a trace: its streams, their chunks, and the images of its processes. Only the heads of chunks are
//! kept; words are read as they are needed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use pcce_abi::trace::{
    self as abi, CHUNK, CHUNK_HEAD, Chunk, FIRST, HEAD, HeadWords, KIND_IMAGE, KIND_PART, KIND_STREAM, Last,
    MAGIC, RING, STREAMS, UNIT, USED, VERSION, parts,
};
use thiserror::Error;

use super::compressed::{Compressed, is_compressed};
use crate::source::Source;
use crate::token::to_hex;

/// Errors of opening a trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(io::Error),
    /// The file is too short, or does not begin like a trace.
    #[error("this is no trace of calls; give the file that PCCE_TRACE named for the program")]
    NoTrace,
    /// A newer release has written it.
    #[error(
        "the trace has version {found} of the format, and this pcce reads version {VERSION}; use the pcce of the \
         release that built the program, or a newer one"
    )]
    Version { found: u32 },
    /// The file is compressed, and has no table of its frames.
    #[error(
        "it is compressed otherwise than by `pcce trace compress`, or that was cut off: `zstd -d` makes a trace of it \
         again, as far as it goes"
    )]
    Compressed,
}

// Not by `#[from]`, which would make the cause a source, too: a chain of errors would then show it two times.
impl From<io::Error> for TraceError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// The head of a chunk of a stream, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkAt {
    /// The offset of its words in the file.
    pub words_at: u64,
    /// The number of words for which it has room.
    pub room: u64,
    /// The number of these words that the file has: fewer, if it was cut.
    pub there: u64,
    pub sequence: u64,
    /// `CLOCK_MONOTONIC` at its beginning, in nanoseconds.
    pub clock: u64,
    pub begin: u32,
    pub end: u32,
    /// Words in it, where it does not end open.
    pub words: u64,
    /// Verify mode: events of the stream up to its end.
    pub events: u64,
    pub hash: u64,
    pub checksum: u64,
    /// The checksum of how it ends, with which the checksum of its words begins.
    pub ended: u64,
    /// `CLOCK_MONOTONIC` at its end, in nanoseconds; 0 where it does not end.
    pub closed: u64,
    /// The number of libraries that the process had loaded at its beginning.
    pub loads: u64,
    /// For an open chunk, if the process has reported it: the number of words written, and the bits, below a
    /// leading one, that the thread had pending then.
    pub last: Option<(u64, u64)>,
}

/// A stream: what one thread has written, or the signal handlers of one level in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    pub number: u64,
    pub process: u32,
    pub thread: u32,
    /// 0 for the thread itself, else the level of its signal handlers.
    pub level: u32,
    /// The stream that was forked, interrupted, or has created the thread; 0 if it is unknown.
    pub parent: u64,
    /// The place in the parent.
    pub parent_position: u64,
    /// Its chunks, by ascending sequence.
    pub chunks: Vec<ChunkAt>,
}

/// The place where a part of a run describes the chunks of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowsAt {
    /// The stream, without chunks.
    pub(super) stream: Stream,
    /// The way in which the first of these chunks begins.
    pub(super) begin: u32,
    pub(super) first: u64,
    /// The part's number, from 0, and the number of parts.
    pub(super) part: u32,
    pub(super) parts: u32,
    /// The offset of the rows in the file.
    pub(super) rows_at: u64,
    /// When the first chunk began, in nanoseconds.
    pub(super) clock: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub process: u32,
    /// When it was described, in nanoseconds.
    pub clock: u64,
    /// The number of libraries that the process had loaded then.
    pub loads: u64,
    /// The address of its lowest byte.
    pub low: u64,
    /// The address after its highest byte.
    pub high: u64,
    /// The load bias: address in memory less address in the file.
    pub bias: u64,
    /// Its build id in hexadecimal digits; empty if it has none.
    pub build_id: String,
    /// Its file, as the process knew it.
    pub path: PathBuf,
    /// The functions that the process has left out, by the distances of their second bodies from `low`.
    pub left_out: Vec<u32>,
}

#[derive(Debug)]
enum Content {
    Plain(Source),
    Compressed(Compressed),
}

#[derive(Debug)]
pub struct TraceFile {
    content: Content,
    len: u64,
    pub streams: Vec<Stream>,
    /// The images, in the order in which they were described.
    pub images: Vec<Image>,
    /// For a part of a run: its descriptions of streams.
    pub(super) rows: Vec<RowsAt>,
    /// The number of chunks whose head is damaged, or belongs to another chunk. Their streams are unknown.
    pub damaged: u64,
    /// Bytes that processes have allocated in the file, and that are missing: it was cut.
    pub cut: u64,
    /// The number of streams that were begun, and of which the file has nothing.
    pub lost: u64,
    /// True if the oldest chunks of its streams may have been written over.
    pub(super) is_ring: bool,
}

/// Bound on the bytes of a ring that is read at once.
const MAX_AT_ONCE: u64 = 1 << 30;
/// How often a ring is read again if it seems to be damaged.
const MAX_READINGS: u32 = 4;
/// Longer paths of images are cut.
const MAX_PATH: usize = 4096;

impl TraceFile {
    /// Opens a trace, and reads the heads of its chunks.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(TraceError::NoTrace);
        }
        Self::new(Source::File(file))
    }

    /// A trace in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, TraceError> {
        Self::new(Source::Memory(bytes))
    }

    fn new(source: Source) -> Result<Self, TraceError> {
        let (content, len) = match is_compressed(&source)? {
            false => {
                let len = source.len()?;
                (Content::Plain(source), len)
            }
            true => {
                let compressed = Compressed::new(source).ok_or(TraceError::Compressed)?;
                let len = compressed.len();
                (Content::Compressed(compressed), len)
            }
        };
        let mut trace = Self {
            content,
            len,
            streams: Vec::new(),
            images: Vec::new(),
            rows: Vec::new(),
            damaged: 0,
            cut: 0,
            lost: 0,
            is_ring: false,
        };
        let mut head = [0; RING as usize + 8];
        let read = trace.read(&mut head, 0)?;
        if len < HEAD {
            return Err(TraceError::NoTrace);
        }
        check_head(&head[..read])?;
        let mut streams = BTreeMap::new();
        let word = |at: u64| u64_at(&head, at as usize);
        if word(RING) != 0
            && let Content::Plain(source) = &trace.content
            && let Some(whole) = source.at_once(MAX_AT_ONCE)?
        {
            // A program that is running writes over its chunks while they are read.
            let again = |read: Self| match read.damaged {
                0 => Ok(read),
                _ => source.at_once(MAX_AT_ONCE)?.map_or(Ok(read), Self::new),
            };
            // A damaged chunk may be one that the program was beginning again.
            return (0..MAX_READINGS).try_fold(Self::new(whole)?, |read, _| again(read));
        }
        trace.is_ring = word(RING) != 0;
        let ring_end = if trace.is_ring { word(USED) } else { 0 };
        let mut at = FIRST;
        while at < len {
            at += trace.chunk(at, ring_end, &mut streams)?;
        }
        trace.streams = streams.into_values().collect();
        // Before its first chunk, a file has no more than a head.
        trace.cut = if word(USED) > FIRST { word(USED).saturating_sub(len) } else { 0 };
        // A ring writes over what ended threads have left.
        if !trace.is_ring {
            let known = trace.streams.iter().chain(trace.rows.iter().map(|rows| &rows.stream));
            let known: BTreeSet<u64> = known.map(|stream| stream.number).collect();
            trace.lost = word(STREAMS).saturating_sub(known.len() as u64);
        }
        for stream in &mut trace.streams {
            stream.chunks.sort_by_key(|chunk| chunk.sequence);
            let all = stream.chunks.len();
            stream.chunks.dedup_by_key(|chunk| chunk.sequence);
            // A second chunk with the same number is damage.
            trace.damaged += (all - stream.chunks.len()) as u64;
        }
        // So is a second description of an image, or of the same chunks by a part.
        let all = trace.images.len() + trace.rows.len();
        let mut described = HashSet::new();
        trace.images.retain(|image| described.insert((image.process, image.clock, image.loads, image.low)));
        let mut reported = HashSet::new();
        trace.rows.retain(|rows| reported.insert((rows.stream.number, rows.first, rows.part)));
        trace.damaged += (all - trace.images.len() - trace.rows.len()) as u64;
        trace.images.sort_by_key(|image| image.clock);
        Ok(trace)
    }

    /// Reads the head of the chunk that may begin at `at`. Returns the distance from there to where the next one
    /// may begin. `ring_end`: the end of the allocated places of a ring.
    fn chunk(
        &mut self,
        at: u64,
        ring_end: u64,
        streams: &mut BTreeMap<u64, Stream>,
    ) -> Result<u64, TraceError> {
        let mut head = [0; CHUNK_HEAD as usize];
        let read = self.read(&mut head, at)?;
        if u64_at(&head, offset_of!(Chunk, magic)) != CHUNK {
            // In other files, the sequences of each stream show what is missing.
            self.damaged += u64::from(at < ring_end);
            return Ok(UNIT);
        }
        let kind = u32_at(&head, offset_of!(Chunk, kind));
        let (begin, end) = (u32_at(&head, offset_of!(Chunk, begin)), u32_at(&head, offset_of!(Chunk, end)));
        let is_known = (KIND_STREAM..=KIND_PART).contains(&kind) && begin <= abi::BEGIN_LOST && end <= 2;
        let Some(size) = chunk_size(&head).filter(|_| is_known && read == head.len()) else {
            self.damaged += 1;
            return Ok(UNIT);
        };
        let words: HeadWords = std::array::from_fn(|at| u64_at(&head, 8 * at));
        if abi::head_checksum(&words) != u64_at(&head, offset_of!(Chunk, head)) {
            self.damaged += 1;
            return Ok(UNIT);
        }
        let ended = abi::end_checksum(end, &words);
        let checksum = u64_at(&head, offset_of!(Chunk, checksum));
        let process = u32_at(&head, offset_of!(Chunk, process));
        let clock = u64_at(&head, offset_of!(Chunk, clock));
        let loads = u64_at(&head, offset_of!(Chunk, loads));
        if kind == KIND_IMAGE {
            let left_out = u64_at(&head, offset_of!(Chunk, words)).min(size / 4) as usize;
            self.image((at + CHUNK_HEAD, left_out), ended, checksum, process, clock, loads)?;
            return Ok(size);
        }
        let number = u64_at(&head, offset_of!(Chunk, stream));
        let stream = || Stream {
            number,
            process,
            thread: u32_at(&head, offset_of!(Chunk, thread)),
            level: u32_at(&head, offset_of!(Chunk, level)),
            parent: u64_at(&head, offset_of!(Chunk, parent)),
            parent_position: u64_at(&head, offset_of!(Chunk, parent_position)),
            chunks: Vec::new(),
        };
        if kind == KIND_PART {
            let mut part = [0; size_of::<parts::Head>()];
            let whole = self.read(&mut part, at + CHUNK_HEAD)? == part.len();
            self.damaged += u64::from(!whole);
            self.rows.extend(whole.then(|| RowsAt {
                stream: stream(),
                begin,
                first: u64_at(&head, offset_of!(Chunk, sequence)),
                part: u32_at(&part, offset_of!(parts::Head, part)),
                parts: u32_at(&part, offset_of!(parts::Head, parts)),
                rows_at: at + parts::ROWS_AT,
                clock,
            }));
            return Ok(size);
        }
        let sequence = u64_at(&head, offset_of!(Chunk, sequence));
        let last = if end == abi::OPEN { self.last(at, size, (number, sequence))? } else { None };
        let stream = streams.entry(number).or_insert_with(stream);
        stream.chunks.push(ChunkAt {
            words_at: at + CHUNK_HEAD,
            room: (size - CHUNK_HEAD) / 8,
            there: (size.min(self.len - at) - CHUNK_HEAD) / 8,
            sequence,
            clock,
            begin,
            end,
            words: u64_at(&head, offset_of!(Chunk, words)),
            events: u64_at(&head, offset_of!(Chunk, events)),
            hash: u64_at(&head, offset_of!(Chunk, hash)),
            ended,
            checksum,
            closed: if end == abi::OPEN { 0 } else { u64_at(&head, offset_of!(Chunk, closed)) },
            loads,
            last,
        });
        Ok(size)
    }

    /// The record at the end of an open chunk of `size` bytes, if no words were written after the record.
    fn last(&self, at: u64, size: u64, chunk: (u64, u64)) -> Result<Option<(u64, u64)>, TraceError> {
        let end = at + size;
        let mut bytes = [0; abi::LAST as usize];
        let whole = self.read(&mut bytes, end - abi::LAST)? == bytes.len();
        let field = |at: usize| u64_at(&bytes, at);
        let [words, pending] = [field(offset_of!(Last, words)), field(offset_of!(Last, pending))];
        let is_it = whole && bytes == Last::new(chunk.0, chunk.1, words, pending).to_bytes();
        if !is_it || words > (size - CHUNK_HEAD) / 8 {
            return Ok(None);
        }
        let mut next = [0; 8];
        let next_at = at + CHUNK_HEAD + words * 8;
        let went_on = next_at + 8 <= end - abi::LAST && self.read(&mut next, next_at)? > 0 && next != [0; 8];
        Ok((!went_on).then_some((words, pending)))
    }

    /// Reads the description of an image that leaves so many functions out. `ended`: the checksum of how the
    /// chunk ends; `checksum`: of the whole chunk.
    fn image(
        &mut self,
        (at, left_out): (u64, usize),
        ended: u64,
        checksum: u64,
        process: u32,
        clock: u64,
        loads: u64,
    ) -> Result<(), TraceError> {
        const ID: usize = offset_of!(abi::Image, build_id);
        let mut fixed = [0; size_of::<abi::Image>()];
        let whole = self.read(&mut fixed, at)? == fixed.len();
        let (id_len, path_len) = (
            u32_at(&fixed, offset_of!(abi::Image, build_id_len)) as usize,
            u32_at(&fixed, offset_of!(abi::Image, path_len)) as usize,
        );
        if !whole || id_len > fixed.len() - ID {
            self.damaged += 1;
            return Ok(());
        }
        let mut path = vec![0; path_len.min(MAX_PATH)];
        let read = self.read(&mut path, at + fixed.len() as u64)?;
        path.truncate(read);
        let mut list = vec![0; 4 * left_out];
        let read = self.read(&mut list, at + (fixed.len() + path.len()) as u64)?;
        list.truncate(read);
        let content = [&*path, &*list].concat();
        let sum = abi::checksum_of_bytes(abi::checksum_of_bytes(ended, &fixed), &content);
        if sum != checksum {
            self.damaged += 1;
            return Ok(());
        }
        self.images.push(Image {
            process,
            clock,
            loads,
            low: u64_at(&fixed, offset_of!(abi::Image, low)),
            high: u64_at(&fixed, offset_of!(abi::Image, high)),
            bias: u64_at(&fixed, offset_of!(abi::Image, bias)),
            build_id: to_hex(&fixed[ID..ID + id_len]),
            path: OsString::from_vec(path).into(),
            left_out: list.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect(),
        });
        Ok(())
    }

    /// Reads words from a byte of the file on: at most `most`, and fewer at the file's end.
    pub(super) fn words(&self, at: u64, words: &mut Vec<u64>, most: usize) -> io::Result<()> {
        let mut bytes = vec![0; 8 * most];
        let read = self.read(&mut bytes, at)?;
        words.clear();
        words.extend(bytes[..read].chunks_exact(8).map(|word| u64_at(word, 0)));
        Ok(())
    }

    /// Fills the buffer from a byte of the file on, as far as the file goes.
    pub(super) fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match &self.content {
            Content::Plain(source) => source.read(buffer, at),
            Content::Compressed(compressed) => compressed.read(buffer, at),
        }
    }

    /// The streams of which the file has no end: their threads were killed, or go on.
    pub fn without_end(&self) -> usize {
        let is_open = |stream: &&Stream| {
            stream.chunks.last().is_some_and(|chunk| chunk.end == abi::OPEN && chunk.last.is_none())
        };
        self.streams.iter().filter(is_open).count()
    }

    /// For a ring: the number of these streams whose beginning was not kept.
    pub fn without_beginning(&self, streams: &[&Stream]) -> usize {
        let is_cut_off = |stream: &&&Stream| stream.chunks.first().is_some_and(|chunk| chunk.sequence > 0);
        if self.is_ring { streams.iter().filter(is_cut_off).count() } else { 0 }
    }

    /// Messages about missing parts of the file itself, each with the number of places.
    pub fn missing(&self) -> Vec<(u64, String)> {
        let all = [
            (self.damaged, format!("{} chunks are damaged", self.damaged)),
            (
                self.cut.min(1),
                format!("it was cut: it has {} bytes of {}", self.len, self.len.saturating_add(self.cut)),
            ),
            (self.lost, format!("nothing is there of {} threads, or of their signal handlers", self.lost)),
        ];
        all.into_iter().chain(self.in_other_parts()).filter(|(places, _)| *places > 0).collect()
    }

    /// For a part of a run: the streams of which it has kept nothing. The replay reports the missing parts of others.
    fn in_other_parts(&self) -> Option<(u64, String)> {
        let RowsAt { part, parts, .. } = *self.rows.first()?;
        let described: BTreeSet<u64> = self.rows.iter().map(|rows| rows.stream.number).collect();
        let left = described.into_iter().filter(|number| self.stream(*number).is_none()).count();
        let part = part.saturating_add(1);
        let what = format!(
            "it is part {part} of {parts}: of {left} threads, or of their signal handlers, it has nothing"
        );
        Some((left as u64, what))
    }

    pub fn stream(&self, number: u64) -> Option<&Stream> {
        let at = self.streams.binary_search_by_key(&number, |stream| stream.number).ok()?;
        Some(&self.streams[at])
    }
}

/// Checks that a file that begins with `head` is a trace that can be read.
pub(super) fn check_head(head: &[u8]) -> Result<(), TraceError> {
    if head.len() < 16 || head[..8] != MAGIC {
        return Err(TraceError::NoTrace);
    }
    match u32_at(head, 8) {
        VERSION => Ok(()),
        found => Err(TraceError::Version { found }),
    }
}

/// The size in bytes of the chunk with this head. None if the head is not one of a chunk.
pub(super) fn chunk_size(head: &[u8; CHUNK_HEAD as usize]) -> Option<u64> {
    let size = u64_at(head, offset_of!(Chunk, size));
    let fits = size >= UNIT && size.is_multiple_of(UNIT) && size <= 1 << 40;
    (fits && u64_at(head, offset_of!(Chunk, magic)) == CHUNK).then_some(size)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}
