//! A trace in parts: a program is run several times, and each run keeps some chunks of its streams (after
//! distributed-program-tracing.txt, which distributes the places that write).
//!
//! All runs have the same chunks, each of [`UNIT`] bytes. A run has a [`Row`] for each chunk, kept or not, with a
//! fingerprint of all words of the stream up to the chunk's end. So readers see whether runs took different ways, and
//! where.

use super::{AWAY, CHUNK_HEAD, CONTEXT_WORDS, FULL, KIND_SHIFT, Special, UNIT};

/// Words between two of a row's samples.
pub const STEP: usize = 64;
pub const SAMPLES: usize = (UNIT as usize - CHUNK_HEAD as usize) / 8 / STEP;

/// A run's description of a chunk. All zero as long as the chunk has not ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The [`fingerprint`] of the stream's words up to the chunk's end.
    pub fingerprint: u64,
    /// The number of words in the chunk.
    pub words: u32,
    /// How it ends: [`CONTINUED`](super::CONTINUED) or [`ENDED`](super::ENDED).
    pub end: u32,
    /// The highest bits of the same fingerprint after each further [`STEP`] words: they show where in a chunk runs
    /// part.
    pub samples: [u16; SAMPLES],
}

impl Row {
    /// The row of a chunk that has not ended.
    pub const NONE: Self = Self { fingerprint: 0, words: 0, end: 0, samples: [0; SAMPLES] };
}

/// The words after the head of a chunk of rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which part it is, from 0.
    pub part: u32,
    pub parts: u32,
}

/// Offset of the first row in its chunk.
pub const ROWS_AT: u64 = CHUNK_HEAD + size_of::<Head>() as u64;
/// Rows of a chunk.
pub const ROWS: u64 = (UNIT - ROWS_AT) / size_of::<Row>() as u64;

/// The largest number of parts.
pub const MOST: u32 = 1000;

/// Returns whether a part keeps a chunk of a stream, by its sequence.
#[must_use]
pub const fn keeps(part: u32, parts: u32, sequence: u64) -> bool {
    sequence % parts as u64 == part as u64
}

/// Identifies an address in an image in all runs, wherever the image is loaded, by the address in the file and the
/// first bytes of the build id.
#[must_use]
pub const fn place(in_file: u64, build_id: [u8; 8]) -> u64 {
    in_file ^ u64::from_le_bytes(build_id)
}

/// The number of words that follow a special word; None if the word is not special.
#[must_use]
pub const fn words_behind(special: u64) -> Option<usize> {
    let payload = special & ((1 << KIND_SHIFT) - 1);
    Some(match special >> KIND_SHIFT {
        2 | 6 | 8 | 10..=12 | 15 => 0,
        1 | 3 | 7 => 1,
        4 | 5 | 13 | 14 => 2,
        9 => CONTEXT_WORDS + (payload & !AWAY).div_ceil(8) as usize,
        _ => return None,
    })
}

/// Continues the fingerprint of a stream with the words of its next chunk. `place` maps addresses as [`place()`] does;
/// `sample` gets the fingerprint after each [`STEP`] words, or soon after them.
///
/// The fingerprint leaves out contexts at the beginnings of chunks, which follow from earlier words, numbers of
/// streams, which belong to the file, and places on stacks, which belong to the run.
pub fn fingerprint(
    so_far: u64,
    words: &[u64],
    mut place: impl FnMut(u64) -> u64,
    mut sample: impl FnMut(u64),
) -> u64 {
    let mut sum = so_far;
    let mut at = 0;
    let mut next = STEP;
    loop {
        // Nearly all words are bits.
        let end = next.min(words.len());
        while at < end && words[at] >= FULL {
            sum = mix(sum, words[at]);
            at += 1;
        }
        while at >= next {
            sample(sum);
            next += STEP;
        }
        let Some(&word) = words.get(at) else { return sum };
        let kind = if word < FULL { word >> KIND_SHIFT } else { 0 };
        let following = if word < FULL { words_behind(word).unwrap_or(0) } else { 0 };
        let rest = words.get(at + 1..at + 1 + following).unwrap_or_default();
        at += 1 + following;
        if kind == Special::Entered as u64 {
            sum = mix(mix(sum, kind), place(word & ((1 << KIND_SHIFT) - 1)));
        } else if kind == Special::Kept as u64 || kind == Special::Jumped as u64 {
            sum = mix(sum, kind);
        } else if kind != Special::Context as u64 {
            sum = mix(sum, word);
            for (number, &word) in rest.iter().enumerate() {
                let is_address = names_function(kind);
                sum = match number {
                    0 if is_address && word != 0 => mix(sum, place(word)),
                    0 if kind == Special::Handler as u64 => sum,
                    _ => mix(sum, word),
                };
            }
        }
    }
}

/// Returns whether the first word after special words of this kind is the address of a function, or 0.
#[must_use]
pub const fn names_function(kind: u64) -> bool {
    kind == Special::Landed as u64
        || kind == Special::Again as u64
        || kind == Special::Left as u64
        || kind == Special::Back as u64
}

/// Continues a fingerprint with another word.
const fn mix(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}
