//! Parts of a run (`PCCE_TRACE_PART`): a part keeps some chunks of each stream, and describes all of them by rows that
//! all runs must have in common (see `abi::trace::parts`).
//!
//! The words of a chunk that is not kept go to memory of the stream's own, which the next such chunk uses again. All
//! else is as in a whole run, so all runs have the same chunks, with the same words.
//!
//! Unless said otherwise, the contract of unsafe functions is that nothing else uses the stream.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::abi::trace::parts::{self, Head, MOST, ROWS, ROWS_AT, Row};
use crate::abi::trace::{CHUNK, CHUNK_HEAD, Chunk, KIND_PART, OPEN, UNIT, head_checksum};
use crate::area::Stream;
use crate::forks::is_orphan;
use crate::image::Image;
use crate::{file, sys};

/// Which part this is, in the lower half, and how many there are; 0: all is kept.
static PART: AtomicU64 = AtomicU64::new(0);

/// A part of a run.
#[derive(Clone, Copy)]
pub struct Part {
    number: u32,
    count: u32,
}

impl Part {
    /// None if all is kept.
    pub fn wanted() -> Option<Self> {
        let part = PART.load(Ordering::Relaxed);
        (part != 0).then_some(Self { number: part as u32, count: (part >> 32) as u32 })
    }

    /// Parses a text as `2/6`: the second part of six.
    fn parse(text: &[u8]) -> Option<Self> {
        let slash = text.iter().position(|&byte| byte == b'/')?;
        let number = |digits: &[u8]| {
            let digit = |number: u32, byte: &u8| {
                let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
                Some(10 * number + digit).filter(|&number| number <= MOST)
            };
            digits.iter().try_fold(0, digit).filter(|&number| number > 0)
        };
        let (number, count) = (number(&text[..slash])?, number(&text[slash + 1..])?);
        (number <= count).then_some(Self { number: number - 1, count })
    }

    /// Returns whether a chunk is kept.
    pub fn keeps(self, sequence: u64) -> bool {
        parts::keeps(self.number, self.count, sequence)
    }
}

/// Has only a part kept, by a text such as `2/6`. False if the text does not name a part.
pub fn set(text: &[u8]) -> bool {
    let part = Part::parse(text);
    if let Some(Part { number, count }) = part {
        PART.store(u64::from(count) << 32 | u64::from(number), Ordering::Relaxed);
    }
    part.is_some()
}

/// The state of a stream in a part.
#[repr(C)]
pub struct Kept {
    /// Memory for a chunk that is not kept; null before the first one.
    unkept: *mut u8,
    /// The chunk with the rows; null if there is none.
    rows: *mut Chunk,
    /// The sequence of the chunk of its first row.
    first: u64,
    /// The fingerprint of the words up to the chunk's beginning.
    fingerprint: u64,
}

/// The maximum number of words in a chunk. The first chunks are short, so that the parts of short traces have similar
/// sizes.
pub fn room(sequence: u64) -> usize {
    const FIRST: u64 = 64;
    if sequence < FIRST { 1024 } else { UNIT as usize / 8 }
}

/// Makes room for the row of a chunk that is to begin. False if there is none.
pub unsafe fn begin(stream: *mut Stream, part: Part, sequence: u64) -> bool {
    // SAFETY: by the contract; what was mapped is ours alone, and all zero.
    unsafe {
        let kept = &raw mut (*stream).part;
        if !(*kept).rows.is_null() && sequence.wrapping_sub((*kept).first) < ROWS {
            return true;
        }
        let Some((_, mapped)) = file::take(UNIT, || is_orphan(stream)) else { return false };
        if !(*kept).rows.is_null() {
            sys::unmap((*kept).rows.cast(), UNIT as usize);
        }
        if sequence == 0 {
            (*kept).fingerprint = 0;
        }
        (*kept).rows = mapped.cast();
        (*kept).first = sequence;
        let head = mapped.add(CHUNK_HEAD as usize).cast::<Head>();
        head.write(Head { part: part.number, parts: part.count });
        true
    }
}

/// A chunk with this head begins. The rows get its head, too, if it is the first of them.
///
/// # Safety
/// Nothing else uses the stream, and [`begin`] was called for the chunk.
pub unsafe fn begun(stream: *mut Stream, chunk: *const Chunk) {
    // SAFETY: by the contract.
    unsafe {
        let rows = (*stream).part.rows;
        if (*rows).magic == CHUNK {
            return;
        }
        rows.copy_from_nonoverlapping(chunk, 1);
        (*rows).magic = 0;
        (*rows).kind = KIND_PART;
        (*rows).head = head_checksum(&*rows.cast());
        fence(Ordering::Release);
        if !is_orphan(stream) {
            (&raw mut (*rows).magic).write_volatile(CHUNK);
        }
    }
}

/// Memory for a chunk that is not kept; null if there is none.
pub unsafe fn unkept(stream: *mut Stream) -> *mut u8 {
    // SAFETY: by the contract.
    unsafe {
        let kept = &raw mut (*stream).part;
        if (*kept).unkept.is_null() {
            (*kept).unkept = sys::map(UNIT as usize, 0).cast();
        }
        (*kept).unkept
    }
}

/// Returns whether the stream's chunk is not in the file.
pub unsafe fn is_unkept(stream: *const Stream) -> bool {
    // SAFETY: by the contract.
    unsafe { !(*stream).part.unkept.is_null() && (*stream).chunk.cast() == (*stream).part.unkept }
}

/// Writes the row of the chunk with these words, which ends now, or may do so. `is_over`: nothing more comes.
pub unsafe fn write_row(stream: *mut Stream, words: &[u64], end: u32, is_over: bool) {
    // SAFETY: by the contract.
    unsafe {
        let kept = &raw mut (*stream).part;
        let row = row(stream);
        if row.is_null() {
            return;
        }
        (&raw mut (*row).end).write_volatile(OPEN);
        fence(Ordering::Release);
        let mut samples = (&raw mut (*row).samples).cast::<u16>();
        let end_of_samples = samples.add(parts::SAMPLES);
        let fingerprint = parts::fingerprint((*kept).fingerprint, words, place, |sum| {
            if samples < end_of_samples {
                samples.write((sum >> 48) as u16);
                samples = samples.add(1);
            }
        });
        (*row).fingerprint = fingerprint;
        (*row).words = words.len() as u32;
        fence(Ordering::Release);
        (&raw mut (*row).end).write_volatile(end);
        if is_over {
            (*kept).fingerprint = fingerprint;
        }
    }
}

/// Words are added to a chunk whose row has an end: takes the end back.
pub unsafe fn has_no_end(stream: *mut Stream) {
    // SAFETY: by the contract.
    unsafe {
        let row = row(stream);
        if !row.is_null() {
            (&raw mut (*row).end).write_volatile(OPEN);
        }
    }
}

/// The row of the stream's chunk; null if there is none.
unsafe fn row(stream: *mut Stream) -> *mut Row {
    // SAFETY: by the caller.
    unsafe {
        let kept = &raw const (*stream).part;
        if (*kept).rows.is_null() {
            return null_mut();
        }
        let number = (*stream).sequence.wrapping_sub((*kept).first).min(ROWS - 1);
        (*kept).rows.byte_add(ROWS_AT as usize).cast::<Row>().add(number as usize)
    }
}

/// Identifies an address in all runs.
fn place(address: u64) -> u64 {
    match Image::of(address as *const u8) {
        Some(image) => parts::place(address.wrapping_sub(image.load_bias as u64), image.build_id),
        None => address,
    }
}

/// Gives the stream's memory back.
///
/// # Safety
/// Nothing else uses the stream, and its chunk is not [`is_unkept`].
pub unsafe fn give_back(stream: *mut Stream) {
    // SAFETY: by the contract.
    unsafe {
        let kept = &raw mut (*stream).part;
        for at in [(*kept).unkept, (*kept).rows.cast()] {
            if !at.is_null() {
                sys::unmap(at.cast(), UNIT as usize);
            }
        }
        (*kept).unkept = null_mut();
        (*kept).rows = null_mut();
    }
}

#[cfg(test)]
mod tests {
    use super::Part;

    #[test]
    fn parts_are_numbered_from_one() {
        let parse = |text: &[u8]| Part::parse(text).map(|part| (part.number, part.count));
        assert_eq!(parse(b"1/6"), Some((0, 6)));
        assert_eq!(parse(b"06/06"), Some((5, 6)));
        assert_eq!(parse(b"1/1"), Some((0, 1)));
        let wrong: [&[u8]; 9] =
            [b"", b"/", b"1", b"0/2", b"3/2", b"1/0", b"-1/2", b"1/99999999999", b"1/2/3"];
        for text in wrong {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
