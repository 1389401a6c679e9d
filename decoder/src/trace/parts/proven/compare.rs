//! Comparison of the runs: whether all did the same, and where they did not.
//!
//! A fingerprint covers all words of a stream up to its place, whichever run keeps them. So runs with equal last
//! fingerprints had the same words, except with a probability of 2⁻⁶⁴.

use pcce_abi::trace::parts::{Row, STEP};
use pcce_abi::trace::{CONTINUED, ENDED};

use super::{PartFile, PartsError};
use crate::context::Frame;
use crate::trace::programs::Programs;
use crate::trace::reader::Reader;
use crate::trace::{context, heading};

/// A difference between runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The content of a chunk between two of its words.
    Words {
        sequence: u64,
        /// The words before this one are the same.
        from: u64,
        /// The words up to this one are not.
        to: u64,
    },
    /// A thread, a process or a signal handler began in some runs at a place where it did not in others.
    Streams,
}

/// A place where runs took different ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The parts, from 1, that are alike there, the most first.
    pub groups: Vec<Vec<u32>>,
    /// The index of the stream in each part.
    stream: usize,
    /// A difference between runs.
    pub what: What,
}

/// A stream that is the same in all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The number of chunks that are the same.
    pub(super) chunks: usize,
    /// True if no run has ended the stream: the events after these chunks are not known to be the same.
    pub(super) open: bool,
}

/// Compares all parts of a run. Returns the common part of each stream.
///
/// # Errors
/// [`PartsError::Differ`], [`PartsError::Cut`].
pub fn compare(parts: &[PartFile]) -> Result<Vec<Agreed>, PartsError> {
    let count = parts.iter().map(|part| part.streams.len()).max().unwrap_or_default();
    let mut agreed = Vec::with_capacity(count);
    for stream in 0..count {
        let keys: Vec<_> = parts.iter().map(|part| part.streams.get(stream).map(|s| s.key)).collect();
        if let Some(groups) = groups(&keys) {
            return Err(PartsError::Differ(Box::new(Difference { groups, stream, what: What::Streams })));
        }
        agreed.push(compare_rows(parts, stream)?);
    }
    Ok(agreed)
}

fn compare_rows(parts: &[PartFile], stream: usize) -> Result<Agreed, PartsError> {
    let differ = |groups, sequence, from, to| {
        let what = What::Words { sequence, from, to };
        PartsError::Differ(Box::new(Difference { groups, stream, what }))
    };
    let all: Vec<&[Row]> = parts.iter().map(|part| &*part.streams[stream].rows).collect();
    let most = all.iter().map(|rows| rows.len()).max().unwrap_or_default();
    for number in 0..most {
        let rows: Vec<Option<&Row>> = all.iter().map(|rows| rows.get(number)).collect();
        let there: Vec<&Row> = rows.iter().copied().flatten().collect();
        let sequence = number as u64;
        if there.iter().all(|row| *row == there[0]) && there.len() == parts.len() {
            continue;
        }
        if there.iter().any(|row| *row != there[0]) {
            // Samples after the last word are 0. So only those are compared that all rows have.
            let ends = |row: &&Row| row.words as usize / STEP;
            let whole = there.iter().map(ends).min().unwrap_or_default();
            let sample = |sample: usize| {
                rows.iter().map(|row| row.map(|row| row.samples.get(sample).copied())).collect::<Vec<_>>()
            };
            let found = (0..whole).find_map(|at| Some((at, groups_of(&sample(at))?)));
            let (at, groups) = found.or_else(|| Some((whole, groups_of(&rows)?))).unwrap_or_default();
            let to = there.iter().map(|row| u64::from(row.words)).max().unwrap_or_default();
            return Err(differ(groups, sequence, (at * STEP) as u64, to.min(((at + 1) * STEP) as u64)));
        }
        // Some streams have no such chunk: they have ended, or their processes were killed.
        for (part, rows) in parts.iter().zip(&all).filter(|(_, rows)| rows.len() <= number) {
            if rows.last().is_none_or(|row| row.end == CONTINUED) {
                return Err(PartsError::Cut { part: part.part + 1, path: part.path.clone() });
            }
        }
        let have: Vec<bool> = rows.iter().map(Option::is_some).collect();
        return Err(differ(groups(&have).unwrap_or_default(), sequence, 0, 0));
    }
    let open = all.iter().any(|rows| rows.last().is_none_or(|row| row.end != ENDED));
    Ok(Agreed { chunks: most, open })
}

/// The groups of parts, from 1, with equal values, the largest group first. None if all values are equal.
fn groups<T: PartialEq>(values: &[T]) -> Option<Vec<Vec<u32>>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for (number, value) in (1..).zip(values) {
        match groups.iter_mut().find(|group| values[group[0] as usize - 1] == *value) {
            Some(group) => group.push(number),
            None => groups.push(vec![number]),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    (groups.len() > 1).then_some(groups)
}

/// As [`groups`], for the parts that have a value.
fn groups_of<T: PartialEq>(values: &[Option<T>]) -> Option<Vec<Vec<u32>>> {
    let there: Vec<(u32, &T)> =
        (1..).zip(values).filter_map(|(n, value)| Some((n, value.as_ref()?))).collect();
    let found = groups(&there.iter().map(|(_, value)| *value).collect::<Vec<_>>())?;
    Some(found.into_iter().map(|group| group.iter().map(|&at| there[at as usize - 1].0).collect()).collect())
}

impl Difference {
    /// The thread, as one of the parts has it.
    pub fn heading(&self, parts: &[PartFile], programs: &Programs) -> String {
        let Some(part) = parts.iter().find(|part| part.streams.len() > self.stream) else {
            return String::new();
        };
        heading(&Reader::new(&part.file, programs), &part.streams[self.stream].stream)
    }

    /// The context, innermost first, of the last place up to which all runs did the same, as far as the part with
    /// the chunk shows it.
    pub fn place<'t>(&self, parts: &[PartFile], programs: &'t Programs) -> Option<Vec<Frame<'t>>> {
        let What::Words { sequence, from, .. } = self.what else { return None };
        let part = &parts[(sequence % parts.len() as u64) as usize];
        let reader = Reader::new(&part.file, programs);
        let stream = part.file.stream(part.streams.get(self.stream)?.stream.number)?;
        let chunk = stream.chunks.iter().position(|chunk| chunk.sequence == sequence)?;
        let mut replay = match sequence {
            0 => reader.replay(stream),
            _ => reader.replay_from(stream, chunk, None),
        };
        let mut frames = None;
        while let Some(event) = replay.next() {
            let position = replay.position();
            if position >> 40 > sequence || (position >> 8) & 0xffff_ffff > from && frames.is_some() {
                break;
            }
            frames = Some(context(&programs.tables, &event, replay.stack()));
        }
        frames.filter(|frames| !frames.is_empty())
    }
}
