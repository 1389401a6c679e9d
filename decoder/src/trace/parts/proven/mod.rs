//! Parts of one program, whose sameness is proven: it is run several times, all runs decide the same bits, each keeps a
//! part of its chunks, and has fingerprints of all (`pcce_abi::trace::parts` has the format).
//!
//! Only parts of runs that did the same are put together: [`compare`](mod@compare) compares the fingerprints that
//! all runs have of all chunks, and [`merge`] checks the chunks themselves.

mod compare;
mod merge;

use std::io;
use std::path::{Path, PathBuf};

use pcce_abi::trace::parts::{MOST, ROWS, Row, SAMPLES};
use thiserror::Error;

use crate::trace::file::{RowsAt, Stream, TraceError, TraceFile, u32_at, u64_at};

pub use compare::{Difference, What};
pub use merge::{Merged, merge};

/// Errors of merging parts.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PartsError {
    /// A file is no trace.
    #[error("{path}")]
    Trace { path: PathBuf, source: TraceError },
    /// The trace is no part: it has a whole run, or nothing.
    #[error(
        "{0}: this is not a part of a run: the program was not run by `pcce trace collect`, or recorded nothing"
    )]
    NoPart(PathBuf),
    /// The parts are not those of one collection.
    #[error("{path}: it is part {part} of {parts}, and part {expected} of {of} is needed")]
    OtherPart {
        path: PathBuf,
        /// The part's number, from 1.
        part: u32,
        parts: u32,
        /// The number that it should have, from 1.
        expected: u32,
        of: u32,
    },
    /// The part contradicts itself.
    #[error("{path}: it is damaged: {what}")]
    Damaged { path: PathBuf, what: &'static str },
    /// It is not clear which streams of the runs correspond.
    #[error("{path}: {what}")]
    Unlike { path: PathBuf, what: &'static str },
    /// The process of a part did not get as far as others.
    #[error(
        "part {part} is not whole: its process was killed, or had no room for the trace, or the file was cut ({path}); \
         delete the file, and run that part again"
    )]
    Cut {
        /// The part's number, from 1.
        part: u32,
        path: PathBuf,
    },
    /// The runs took different ways.
    #[error("the runs took different ways")]
    Differ(Box<Difference>),
    /// The whole trace cannot be written.
    #[error("{path}: cannot be written")]
    Output { path: PathBuf, source: io::Error },
}

#[derive(Debug)]
pub struct PartFile {
    pub path: PathBuf,
    pub file: TraceFile,
    /// Its number, from 0.
    pub part: u32,
    pub parts: u32,
    /// Its streams, in an order that all runs have in common: each after the stream in which it began.
    streams: Vec<PartStream>,
}

/// A part's description of a stream.
#[derive(Debug)]
struct PartStream {
    /// The stream, without chunks.
    stream: Stream,
    /// The key, which is the same in all runs.
    key: Key,
    /// The rows of its chunks that have ended, in their order.
    rows: Vec<Row>,
}

/// The identity of a stream in all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// The index of the stream in which it began; None for the first stream.
    parent: Option<usize>,
    /// The place in the parent.
    position: u64,
    level: u32,
    begin: u32,
}

impl PartFile {
    /// Opens the file of a part, with the number `part`, from 0, of `parts`.
    pub fn open(path: &Path, part: u32, parts: u32) -> Result<Self, PartsError> {
        let of_trace = |source| PartsError::Trace { path: path.to_owned(), source };
        let file = TraceFile::open(path).map_err(of_trace)?;
        let damaged = |what| PartsError::Damaged { path: path.to_owned(), what };
        if file.damaged > 0 {
            return Err(damaged("heads of chunks are"));
        }
        let Some(first) = file.rows.first() else { return Err(PartsError::NoPart(path.to_owned())) };
        if file.rows.iter().any(|rows| (rows.part, rows.parts) != (first.part, first.parts)) {
            return Err(damaged("it has several parts in it"));
        }
        if (first.part, first.parts) != (part, parts) || parts > MOST {
            return Err(PartsError::OtherPart {
                path: path.to_owned(),
                part: first.part.saturating_add(1),
                parts: first.parts,
                expected: part + 1,
                of: parts,
            });
        }
        if file.cut > 0 {
            return Err(PartsError::Cut { part: part + 1, path: path.to_owned() });
        }
        let streams = streams(&file, path)?;
        Ok(Self { path: path.to_owned(), file, part, parts, streams })
    }

    fn damaged(&self, what: &'static str) -> PartsError {
        PartsError::Damaged { path: self.path.clone(), what }
    }

    fn unlike(&self, what: &'static str) -> PartsError {
        PartsError::Unlike { path: self.path.clone(), what }
    }
}

/// The streams of a part, in the order of their keys.
fn streams(file: &TraceFile, path: &Path) -> Result<Vec<PartStream>, PartsError> {
    let unlike = |what| PartsError::Unlike { path: path.to_owned(), what };
    let of_trace = |error: io::Error| PartsError::Trace { path: path.to_owned(), source: error.into() };
    let mut reported: Vec<&RowsAt> = file.rows.iter().collect();
    reported.sort_by_key(|rows| (rows.stream.number, rows.first));
    let groups: Vec<&[&RowsAt]> = reported.chunk_by(|a, b| a.stream.number == b.stream.number).collect();
    let numbers: Vec<u64> = groups.iter().map(|group| group[0].stream.number).collect();
    let is_first = |group: &&&[&RowsAt]| numbers.binary_search(&group[0].stream.parent).is_err();
    if groups.iter().filter(is_first).count() > 1 {
        return Err(unlike(
            "it has threads or programs of which nobody knows where they began; which one of the other runs each is \
             cannot be reported. What creates threads must be instrumented, and only one program may write the trace",
        ));
    }
    let mut order: Vec<PartStream> = Vec::new();
    let mut found: Vec<(Key, &[&RowsAt])> = Vec::new();
    let key = |group: &[&RowsAt], parent| {
        let first = group[0];
        let Stream { parent_position: position, level, .. } = first.stream;
        Key { parent, position, level, begin: first.begin }
    };
    found.extend(groups.iter().filter(is_first).map(|group| (key(group, None), *group)));
    let mut next = 0;
    loop {
        for (key, group) in found.drain(..) {
            let rows = rows(file, group).map_err(of_trace)?.ok_or(PartsError::Damaged {
                path: path.to_owned(),
                what: "what it tells of its chunks has gaps",
            })?;
            order.push(PartStream { stream: group[0].stream.clone(), key, rows });
        }
        let Some(parent) = order.get(next) else { break };
        let children = groups.iter().filter(|group| group[0].stream.parent == parent.stream.number);
        found.extend(children.map(|group| (key(group, Some(next)), *group)));
        found.sort_by_key(|found| found.0);
        if found.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(unlike(
                "several threads or handlers began at the same place; which one of the other runs each is cannot be \
                 reported",
            ));
        }
        next += 1;
        if order.len() > groups.len() {
            break;
        }
    }
    if order.len() != groups.len() {
        return Err(PartsError::Damaged { path: path.to_owned(), what: "its threads began in each other" });
    }
    Ok(order)
}

/// The rows of the chunks of a stream that have ended. None if something is missing in between.
fn rows(file: &TraceFile, group: &[&RowsAt]) -> io::Result<Option<Vec<Row>>> {
    let mut all: Vec<Row> = Vec::new();
    for reported in group {
        if reported.first > all.len() as u64 {
            return Ok(None);
        }
        all.truncate(reported.first as usize);
        if all.contains(&Row::NONE) {
            return Ok(None);
        }
        let mut bytes = vec![0; ROWS as usize * size_of::<Row>()];
        let read = file.read(&mut bytes, reported.rows_at)?;
        all.extend(bytes[..read].chunks_exact(size_of::<Row>()).map(row));
    }
    while all.last().is_some_and(|row| row.end == 0) {
        all.pop();
    }
    Ok(Some(all).filter(|all| all.iter().all(|row| row.end != 0)))
}

fn row(bytes: &[u8]) -> Row {
    let mut row = Row {
        fingerprint: u64_at(bytes, std::mem::offset_of!(Row, fingerprint)),
        words: u32_at(bytes, std::mem::offset_of!(Row, words)),
        end: u32_at(bytes, std::mem::offset_of!(Row, end)),
        samples: [0; SAMPLES],
    };
    let samples = bytes[std::mem::offset_of!(Row, samples)..].as_chunks().0;
    for (to, from) in row.samples.iter_mut().zip(samples) {
        *to = u16::from_le_bytes(*from);
    }
    if row.end == 0 { Row::NONE } else { row }
}
