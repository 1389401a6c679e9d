//! A trace that several programs have written, each a part of it (distributed-program-tracing.txt): the program was
//! made several times, and each time its code writes other bits ([`pcce_dictionary::trace::Part`]).
//!
//! All programs have the same tables, so a reader knows after each event which program has written the bits of the next
//! one. All of them write what comes in unknown code, and all special words: the parts of runs that took different ways
//! contradict each other there, or do not end together.

mod merge;
pub mod proven;
mod weights;
mod written;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSegment};
use pcce_abi::trace::parts::words_behind;
use pcce_abi::trace::{FULL, KIND_SHIFT, OPEN, Special};
use thiserror::Error;

use super::event::GapCause;
use super::file::{ChunkAt, Stream, TraceError, TraceFile};
use super::programs::{Programs, TablesError};
use crate::token::to_hex;

pub use merge::{Merged, merge};
pub use weights::{Balance, BalanceError, balance};
pub(in crate::trace) use written::Written;

/// Errors of merging parts.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PartsError {
    /// A file is no trace.
    #[error("{path}")]
    Trace { path: PathBuf, source: TraceError },
    /// A program has no tables.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// A program cannot be read.
    #[error("{path}: cannot be read")]
    Program { path: PathBuf, source: io::Error },
    /// A program is not the part that is needed.
    #[error("{path}: it is {what}; make the parts again (`pcce trace split`)")]
    OtherProgram { path: PathBuf, what: String },
    /// The trace is not that of a part.
    #[error(
        "{0}: this is not the trace of that part's program: it was not run by `pcce trace collect`, or recorded nothing"
    )]
    NoPart(PathBuf),
    /// The trace is damaged, cut, or has what cannot be put together.
    #[error("{path}: {what}")]
    Unlike { path: PathBuf, what: String },
    /// The process of a part has not written all.
    #[error(
        "part {part} is not whole: its process was killed, or had no room for the trace, or the file was cut ({path}); \
         delete the file, and run that part again"
    )]
    Cut {
        /// The part's number, from 1.
        part: u32,
        path: PathBuf,
    },
    /// The parts do not say what a thread did.
    #[error("{thread}: the parts do not say what it did: {cause}; collect with `--prove`")]
    Lost {
        thread: String,
        cause: GapCause,
        /// The calls up to which they do, innermost first.
        place: Vec<String>,
    },
    /// The runs took different ways.
    #[error("the runs took different ways")]
    Differ(Box<Difference>),
    /// The whole trace cannot be written.
    #[error("{path}: cannot be written")]
    Output { path: PathBuf, source: io::Error },
}

/// A place where runs took different ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The thread.
    pub thread: String,
    /// The calls that were active when it was found, innermost first: the runs parted there, or somewhat earlier. Empty
    /// if it is not known.
    pub place: Vec<String>,
}

/// A program of which parts were made.
#[derive(Debug)]
pub struct Split {
    path: PathBuf,
    build_id: String,
    /// The address after its last byte.
    high: u64,
    /// By function, its address in the file.
    addresses: Vec<u64>,
    parts: Vec<PartProgram>,
}

/// The program of a part.
#[derive(Debug)]
struct PartProgram {
    build_id: String,
    programs: Programs,
}

impl Split {
    /// Opens a program and its parts, in their order.
    ///
    /// # Errors
    /// A file cannot be read, or the programs are not the parts of this one.
    pub fn open(path: &Path, parts: &[PathBuf]) -> Result<Self, PartsError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (build_id, high) = identity(&path)?;
        let whole = Programs::load(&[], &path, &[], &[])?;
        let mut opened = Vec::new();
        for (number, part) in (0..).zip(parts) {
            let other = |what: &str| PartsError::OtherProgram { path: part.clone(), what: what.to_owned() };
            let (build_id, _) = identity(part)?;
            let programs = Programs::load(&[], part, &[], &[])?;
            let own = programs.tables.part.ok_or_else(|| other("no part of a program"))?;
            if (own.number, own.count as usize) != (number, parts.len()) {
                let found = format!("part {} of {}", own.number + 1, own.count);
                return Err(other(&format!("{found}, and part {} of {} is needed", number + 1, parts.len())));
            }
            if !programs.tables.is_like(&whole.tables) {
                return Err(other(&format!("a part of another build than {}", path.display())));
            }
            let first = opened.first().and_then(|first: &PartProgram| first.programs.tables.part);
            if first.is_some_and(|first| first.seed != own.seed) {
                return Err(other("not made together with part 1"));
            }
            opened.push(PartProgram { build_id, programs });
        }
        Ok(Self { path, build_id, high, addresses: whole.tables.addresses(), parts: opened })
    }
}

/// The build id of a program, and the address after its last byte.
fn identity(path: &Path) -> Result<(String, u64), PartsError> {
    let unreadable = |source| PartsError::Program { path: path.to_owned(), source };
    let bytes = fs::read(path).map_err(unreadable)?;
    let file = object::File::parse(&*bytes).map_err(|error| unreadable(io::Error::other(error)))?;
    let id = file.build_id().ok().flatten().unwrap_or_default();
    let end = file.segments().map(|segment| segment.address().saturating_add(segment.size())).max();
    Ok((to_hex(id), end.unwrap_or_default()))
}

/// The trace of a part.
#[derive(Debug)]
pub struct PartFile {
    path: PathBuf,
    file: TraceFile,
    /// Its streams, in an order that all parts have in common: each after the stream in which it began.
    streams: Vec<PartStream>,
    /// The streams, by number, and the places in them that handlers of signals have interrupted.
    interrupted: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct PartStream {
    /// The index in the file.
    index: usize,
    key: Key,
}

/// The identity of a stream among those that have begun in the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// The index in the common order of the stream in which it began; None for the first stream.
    parent: Option<usize>,
    /// The place in the parent, in this part.
    position: u64,
    level: u32,
    begin: u32,
}

impl PartFile {
    /// Opens the trace of a part, with this number, from 0.
    ///
    /// # Errors
    /// The file cannot be read, or is not the trace of that part's program.
    pub fn open(split: &Split, number: usize, path: &Path) -> Result<Self, PartsError> {
        let of_trace = |source| PartsError::Trace { path: path.to_owned(), source };
        let file = TraceFile::open(path).map_err(of_trace)?;
        let program = &split.parts[number].build_id;
        let own = || file.images.iter().filter(|image| image.build_id == *program);
        let Some(first) = own().next() else { return Err(PartsError::NoPart(path.to_owned())) };
        let unlike = |what: &str| PartsError::Unlike { path: path.to_owned(), what: what.to_owned() };
        if file.is_ring {
            return Err(unlike("it has only the last calls (PCCE_TRACE_RING)"));
        }
        if file.damaged > 0 {
            return Err(unlike("it is damaged"));
        }
        if file.cut > 0 || file.lost > 0 {
            return Err(PartsError::Cut { part: number as u32 + 1, path: path.to_owned() });
        }
        if own().any(|image| image.bias != first.bias || !image.left_out.is_empty()) {
            return Err(unlike("the program was started several times, or functions of it were chosen"));
        }
        let streams = streams(&file).map_err(unlike)?;
        let of_handlers = file.streams.iter().filter(|stream| stream.level > 0);
        let chunks = of_handlers.flat_map(|stream| &stream.chunks);
        let interrupted = chunks.map(|chunk| handlers(&file, chunk)).collect::<io::Result<Vec<_>>>();
        let interrupted = interrupted.map_err(|source| of_trace(source.into()))?.concat();
        Ok(Self { path: path.to_owned(), file, streams, interrupted })
    }

    /// The stream of this index in the common order.
    fn stream(&self, index: usize) -> &Stream {
        &self.file.streams[self.streams[index].index]
    }

    /// The number of words in all streams.
    fn words(&self) -> u64 {
        let chunks = self.file.streams.iter().flat_map(|stream| &stream.chunks);
        chunks.map(|chunk| chunk.words).sum()
    }

    /// The places of a stream that others name, ascending: where they have begun, and where handlers of signals have
    /// interrupted it.
    fn named_places(&self, index: usize) -> Vec<u64> {
        let number = self.stream(index).number;
        let children = self.file.streams.iter().filter(|child| child.parent == number);
        let interrupted = self.interrupted.iter().filter(|found| found.0 == number).map(|found| found.1);
        let mut places: Vec<u64> = children.map(|child| child.parent_position).chain(interrupted).collect();
        places.sort_unstable();
        places
    }
}

/// The interrupted streams and places that the handlers of a chunk name.
fn handlers(file: &TraceFile, chunk: &ChunkAt) -> io::Result<Vec<(u64, u64)>> {
    let mut words = Vec::new();
    let count = if chunk.end == OPEN { chunk.there } else { chunk.words.min(chunk.there) };
    file.words(chunk.words_at, &mut words, count as usize)?;
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&word) = words.get(at).filter(|word| **word != 0) {
        let is_special = word < FULL;
        if is_special
            && word >> KIND_SHIFT == Special::Handler as u64
            && let Some(&[stream, place]) = words.get(at + 1..at + 3)
        {
            found.push((stream, place));
        }
        at += 1 + if is_special { words_behind(word).unwrap_or(0) } else { 0 };
    }
    Ok(found)
}

/// The streams of a part, in the order of their keys.
fn streams(file: &TraceFile) -> Result<Vec<PartStream>, &'static str> {
    let numbers: Vec<u64> = file.streams.iter().map(|stream| stream.number).collect();
    let is_first = |stream: &Stream| !numbers.contains(&stream.parent);
    if file.streams.iter().filter(|stream| is_first(stream)).count() != 1 {
        return Err(
            "it has threads or programs of which nobody knows where they began; which one of the other runs each is \
             cannot be reported. What creates threads must be instrumented, and only one program may write the trace",
        );
    }
    if file.streams.iter().any(|stream| stream.chunks.first().is_none_or(|chunk| chunk.sequence > 0)) {
        return Err("the beginning of a thread is missing");
    }
    let key = |stream: &Stream, parent| Key {
        parent,
        position: stream.parent_position,
        level: stream.level,
        begin: stream.chunks[0].begin,
    };
    let mut order: Vec<PartStream> = Vec::new();
    let streams = || file.streams.iter().enumerate();
    let mut found: Vec<PartStream> = streams()
        .filter(|(_, stream)| is_first(stream))
        .map(|(index, stream)| PartStream { index, key: key(stream, None) })
        .collect();
    let mut next = 0;
    loop {
        order.append(&mut found);
        let Some(parent) = order.get(next) else { break };
        let number = file.streams[parent.index].number;
        let children = streams().filter(|(_, stream)| stream.parent == number);
        found.extend(children.map(|(index, stream)| PartStream { index, key: key(stream, Some(next)) }));
        found.sort_by_key(|found| found.key);
        if found.windows(2).any(|pair| pair[0].key == pair[1].key) {
            return Err(
                "several threads or handlers began at the same place; which one of the other runs each is cannot be \
                 reported; collect with `--prove`",
            );
        }
        next += 1;
        if order.len() > file.streams.len() {
            break;
        }
    }
    if order.len() == file.streams.len() {
        Ok(order)
    } else {
        Err("it is damaged: its threads began in each other")
    }
}
