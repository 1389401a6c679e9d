//! The file of numbers (`docs/formats.md`): the meaning of interned numbers, one record for each. Lucce (lucce.txt §5)
//! keeps numbers decodable by a log of each change of its call graph; here the log is of the chains themselves.
//!
//! A record does not change once it is written, and it has a check: a record that a killed process was writing, or that
//! a full disk did not take, is known to be missing.

use crate::token::BUILD_ID_LEN;

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"PCCEnums";
/// The version of the format.
pub const VERSION: u32 = 1;
/// Bytes of a file's head. The records follow.
pub const HEAD: u64 = 4096;
/// Offset in the head of the count of numbers (8 bytes) that the processes using the file have given.
pub const GIVEN: u64 = 64;
/// Bytes of a record.
pub const RECORD: u64 = 24;
/// All numbers are smaller.
pub const END: u64 = 1 << 40;

/// The beginning of a head: [`MAGIC`], [`VERSION`] and [`RECORD`].
#[must_use]
pub fn head() -> [u8; 16] {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..].copy_from_slice(&(RECORD as u32).to_le_bytes());
    head
}

/// The offset of the record of a number. Numbers begin with 1.
#[must_use]
pub const fn offset(number: u64) -> u64 {
    HEAD + (number - 1) * RECORD
}

/// The meaning of a number. `outer` is the number of the chain outwards. Where there is no chain, it is the number of
/// the place 0 in the program of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// An address in an image.
    Place {
        /// The first bytes of the image's build id, as many as tokens carry, then zeros.
        build_id: [u8; BUILD_ID_LEN],
        len: u8,
        /// The address in the image's file; or the address in the process, if the image has no build id and is not the
        /// program.
        address: u64,
    },
    /// A pushed frame, or the capture with which a context ends.
    Site {
        outer: u64,
        /// The site's place. The place 0 of the program stands for an open call.
        place: u64,
        id: u64,
        /// True if the function that was entered has left its activation to another one.
        left: bool,
    },
    /// A stack offset of the frame or capture `outer`, in words.
    Offset {
        /// The frame or capture.
        outer: u64,
        /// The stack offset.
        distance: u64,
    },
    /// A context of a function with a range of numbers.
    Range { outer: u64, number: u64 },
    /// A chain that could not be followed goes no further.
    Unknown {
        /// The program.
        outer: u64,
        /// True if the start of the sub-path further in is unknown.
        start_missing: bool,
    },
    /// A frame that was pushed for a signal's handler. The addresses of the interrupted point follow further in.
    Signal {
        outer: u64,
        /// The id at the interrupted point.
        id: u64,
    },
    /// A capture of code that is not instrumented. Its addresses follow further in.
    Point { outer: u64, id: u64 },
    /// An address of such a point, the innermost one first.
    Address {
        /// The address before, or the point.
        outer: u64,
        place: u64,
        /// True if the address is a program counter, and not a return address.
        exact: bool,
    },
    /// The end of such a point.
    End {
        /// The last address.
        outer: u64,
        end: PointEnd,
    },
}

/// How the addresses of a point end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointEnd {
    /// As in tokens, 0 to 3.
    pub end: u8,
    /// The chain of frames is not that of the activations at the point.
    pub detached: bool,
    /// The id at the point may have been another one.
    pub other_state: bool,
    /// The id counts from the id in a frame.
    pub relative: bool,
    /// The numbers of the first and the last address before which others are left out; (0, 0) if none are.
    pub left_out: (u8, u8),
    /// With `detached`: nothing was found damaged, since the chain belongs to calls that are over, or all addresses are
    /// there.
    pub gone: bool,
}

impl PointEnd {
    /// As one number.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.end as u64
            | (self.detached as u64) << 2
            | (self.other_state as u64) << 3
            | (self.relative as u64) << 4
            | (self.left_out.0 as u64) << 5
            | (self.left_out.1 as u64) << 13
            | (self.gone as u64) << 21
    }

    /// The inverse of [`bits`](Self::bits).
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits >= 1 << 22 {
            return None;
        }
        Some(Self {
            end: bits as u8 & 3,
            detached: bits >> 2 & 1 == 1,
            other_state: bits >> 3 & 1 == 1,
            relative: bits >> 4 & 1 == 1,
            left_out: ((bits >> 5) as u8, (bits >> 13) as u8),
            gone: bits >> 21 == 1,
        })
    }
}

/// A record: the meaning of a number, and whether the process has a hybrid encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub entry: Entry,
    /// True if stack offsets distinguish contexts of the program.
    pub hybrid: bool,
}

/// The reason why words are no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRecord {
    Empty,
    /// The check does not fit.
    Damaged,
    /// The check fits, and the rest makes no record.
    Malformed,
}

const BITS: u32 = END.ilog2();
/// The number of bits that the second of a record's two numbers has in the second word.
const LOW: u32 = 64 - BITS;
const KIND: u32 = BITS - LOW;
const CHECK: u32 = KIND + 8;
const HYBRID: u8 = 1 << 7;

/// The check of a record with these words, at the place of this number.
const fn check(number: u64, words: [u64; 3]) -> u64 {
    let mut hash = (words[0] ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 32 ^ words[1]).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 29 ^ words[2]).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash >> CHECK << CHECK
}

impl Record {
    /// The words of the record of a number. The last one is never 0, and is to be written last.
    #[must_use]
    #[inline]
    pub const fn words(&self, number: u64) -> [u64; 3] {
        let (kind, value, first, second) = match self.entry {
            Entry::Place { build_id, len, address } => {
                (1, u64::from_le_bytes(build_id), address & (END - 1), address >> BITS | (len as u64) << 32)
            }
            Entry::Site { outer, place, id, left } => (2 + left as u8, id, outer, place),
            Entry::Offset { outer, distance } => (4, distance, outer, 0),
            Entry::Range { outer, number } => (5, number, outer, 0),
            Entry::Unknown { outer, start_missing } => (6, start_missing as u64, outer, 0),
            Entry::Signal { outer, id } => (7, id, outer, 0),
            Entry::Point { outer, id } => (8, id, outer, 0),
            Entry::Address { outer, place, exact } => (9 + exact as u8, 0, outer, place),
            Entry::End { outer, end } => (11, end.bits(), outer, 0),
        };
        let kind = if self.hybrid { kind | HYBRID } else { kind };
        Self::checked(number, [value, first | second << BITS, second >> LOW | (kind as u64) << KIND])
    }

    /// The words of the record of a number, with the check that fits.
    #[must_use]
    pub const fn checked(number: u64, words: [u64; 3]) -> [u64; 3] {
        let content = [words[0], words[1], words[2] & ((1 << CHECK) - 1)];
        [content[0], content[1], content[2] | check(number, content)]
    }

    /// The record of a number with these words.
    ///
    /// # Errors
    /// [`NoRecord`] says why there is no record.
    pub fn read(number: u64, words: [u64; 3]) -> Result<Self, NoRecord> {
        if words == [0; 3] {
            return Err(NoRecord::Empty);
        }
        if Self::checked(number, words) != words {
            return Err(NoRecord::Damaged);
        }
        let (value, outer) = (words[0], words[1] & (END - 1));
        let place = words[1] >> BITS | (words[2] & ((1 << KIND) - 1)) << LOW;
        let kind = (words[2] >> KIND) as u8;
        let entry = match kind & !HYBRID {
            1 => {
                let (len, high) = (place >> 32, place & ((1 << (64 - BITS)) - 1));
                Entry::Place { build_id: value.to_le_bytes(), len: len as u8, address: outer | high << BITS }
            }
            kind @ (2 | 3) => Entry::Site { outer, place, id: value, left: kind == 3 },
            4 => Entry::Offset { outer, distance: value },
            5 => Entry::Range { outer, number: value },
            6 => Entry::Unknown { outer, start_missing: value == 1 },
            7 => Entry::Signal { outer, id: value },
            8 => Entry::Point { outer, id: value },
            kind @ (9 | 10) => Entry::Address { outer, place, exact: kind == 10 },
            11 => Entry::End { outer, end: PointEnd::from_bits(value).ok_or(NoRecord::Malformed)? },
            _ => return Err(NoRecord::Malformed),
        };
        let record = Self { entry, hybrid: kind & HYBRID != 0 };
        // No bit is ignored: writing the record gives the same words.
        if record.words(number) == words { Ok(record) } else { Err(NoRecord::Malformed) }
    }
}

/// A number of `pcce_context()` from [`INTERNED`](crate::INTERNED) on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interned {
    /// The number of a context.
    Context(u64),
    /// The number of a chain, which is not 0, and a number in the range of a function.
    Pair(u64, u64),
}

/// A bit of numbers that stand for a pair.
const PAIR: u64 = 1 << 62;
/// Bits for the two numbers in a pair. The six bits above them hold the place of the second number's highest bit, above
/// which the first number begins.
const PAIR_BITS: u32 = 56;

/// One number for a chain's number, which is not 0, and one in the range of a function, if they are small enough, as
/// most are. Such a number needs no record.
#[must_use]
#[inline(always)]
pub fn pair(chain: u64, number: u64) -> Option<u64> {
    let highest = (number | 1).ilog2();
    (chain <= ((1 << (PAIR_BITS - 1)) - 1) >> highest)
        .then(|| crate::INTERNED | PAIR | u64::from(highest) << PAIR_BITS | chain << 1 << highest | number)
}

impl Interned {
    /// Reads a number. None if the process has not given it.
    #[must_use]
    pub fn read(number: u64) -> Option<Self> {
        if number & crate::INTERNED == 0 {
            return None;
        }
        if number & PAIR == 0 {
            let context = number ^ crate::INTERNED;
            return (1..END).contains(&context).then_some(Self::Context(context));
        }
        let highest = (number >> PAIR_BITS & 63) as u32;
        let both = number & ((1 << PAIR_BITS) - 1);
        if highest >= PAIR_BITS {
            return None;
        }
        let (chain, low) = (both >> 1 >> highest, both & ((2 << highest) - 1));
        (chain != 0 && pair(chain, low) == Some(number)).then_some(Self::Pair(chain, low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn entries() -> Vec<Entry> {
        let most = END - 1;
        let mut entries = Vec::new();
        for (outer, value) in [(1, 0), (most, u64::MAX), (77, 1 << 63)] {
            for flag in [false, true] {
                entries.push(Entry::Site { outer, place: most - outer + 1, id: value, left: flag });
                entries.push(Entry::Address { outer, place: outer, exact: flag });
            }
            entries.push(Entry::Offset { outer, distance: value });
            entries.push(Entry::Range { outer, number: value });
            entries.push(Entry::Unknown { outer, start_missing: value == 0 });
            entries.push(Entry::Signal { outer, id: value });
            entries.push(Entry::Point { outer, id: value });
            entries.push(Entry::Place { build_id: [outer as u8; 8], len: 8, address: value });
        }
        for bits in 0..32 {
            entries.push(Entry::End { outer: 3, end: PointEnd::from_bits(bits).unwrap() });
        }
        entries
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        for entry in entries() {
            for hybrid in [false, true] {
                for number in [1, 2, END - 1] {
                    let record = Record { entry, hybrid };
                    let words = record.words(number);
                    assert_ne!(words[2], 0);
                    assert_eq!(Record::read(number, words), Ok(record));
                    assert_eq!(Record::read(number + 1, words), Err(NoRecord::Damaged), "at its place only");
                }
            }
        }
        assert_eq!(Record::read(1, [0; 3]), Err(NoRecord::Empty));
    }

    #[test]
    fn a_record_with_a_bit_or_a_word_less_is_none() {
        for entry in entries() {
            let words = Record { entry, hybrid: false }.words(9);
            for bit in 0..192 {
                let mut other = words;
                other[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(Record::read(9, other), Err(NoRecord::Damaged), "{entry:?} {bit}");
            }
            // The words are written in this order: only the first ones may be there.
            assert!(Record::read(9, [words[0], words[1], 0]).is_err());
            assert!(Record::read(9, [words[0], 0, 0]).is_err());
        }
    }

    #[test]
    fn pairs_are_distinct_and_no_other_numbers() {
        let edges = |bits: u32| -> Vec<u64> {
            let powers = (0..bits).map(|bit| 1_u64 << bit);
            powers.flat_map(|power| [power.saturating_sub(1), power, power + 1]).collect()
        };
        let mut pairs = std::collections::HashMap::new();
        for chain in edges(60).into_iter().filter(|&chain| chain != 0) {
            for number in edges(64).into_iter().chain([u64::MAX]) {
                let Some(pair) = pair(chain, number) else { continue };
                assert!(pair >= crate::INTERNED | PAIR);
                assert_eq!(*pairs.entry(pair).or_insert((chain, number)), (chain, number));
                assert_eq!(Interned::read(pair), Some(Interned::Pair(chain, number)));
            }
        }
        // Numbers that programs have, and numbers that no longer fit.
        for (chain, number, fits) in [
            (1, 1, true),
            (4000, 1 << 43, true),
            ((1 << 55) - 1, 1, true),
            (1 << 55, 1, false),
            ((1 << 15) - 1, (1 << 41) - 1, true),
            (1 << 15, (1 << 41) - 1, false),
            ((1 << 15) - 1, 1 << 41, false),
            (1, (1 << 55) - 1, true),
            (1, 1 << 55, false),
            (1, u64::MAX, false),
        ] {
            assert_eq!(pair(chain, number).is_some(), fits, "{chain} {number:#x}");
        }
    }

    #[test]
    fn numbers_that_were_never_given_are_none() {
        let interned = crate::INTERNED;
        for number in [0, 1, interned - 1, interned, interned | END, interned | PAIR, u64::MAX] {
            assert_eq!(Interned::read(number), None, "{number:#x}");
        }
        assert_eq!(Interned::read(interned | 7), Some(Interned::Context(7)));
        // A second number with fewer bits than the pair says.
        assert_eq!(Interned::read(interned | PAIR | 3 << PAIR_BITS | 1 << 4), None);
    }
}
