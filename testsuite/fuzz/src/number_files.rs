//! Files of numbers: as bytes, and as records with the right checks, which no mutation of bytes would hit.

use pcce::Context;
use pcce::numbers::{Numbers, NumbersFile};
use pcce::token::{BuildId, CodeAddress, Point, PointEnd, Token};
use pcce_abi::INTERNED;
use pcce_abi::numbers::{Entry, GIVEN, HEAD, PointEnd as End, RECORD, Record, head, pair};

use crate::{Target, decoder, token};

/// The first byte of an input tells its kind: a file, or records, which get a head and checks.
const FILE: u8 = 0;
const RECORDS: u8 = 1;
/// Numbers that are looked up in a file: those of the last records.
const NUMBERS: u64 = 24;
/// Longer contexts are right if their start is.
const FRAMES: usize = 10_000;

pub(crate) const TARGET: Target = Target { name: "numbers", seeds, check };

/// A file with these records.
fn file(records: &[[u64; 3]]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD as usize];
    bytes[..16].copy_from_slice(&head());
    bytes[GIVEN as usize..][..8].copy_from_slice(&(records.len() as u64).to_le_bytes());
    bytes.extend(records.iter().flatten().flat_map(|word| word.to_le_bytes()));
    bytes
}

/// The records of bytes, with their checks, if they can be any.
fn records(bytes: &[u8]) -> Vec<[u64; 3]> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let words = bytes.chunks_exact(RECORD as usize).map(|r| [word(&r[..8]), word(&r[8..16]), word(&r[16..])]);
    (1..).zip(words).map(|(number, words)| Record::checked(number, words)).collect()
}

/// Writes the records of a token.
#[derive(Default)]
struct Maker {
    entries: Vec<Entry>,
    hybrid: bool,
}

impl Maker {
    fn add(&mut self, entry: Entry) -> u64 {
        self.entries.push(entry);
        self.entries.len() as u64
    }

    fn place(&mut self, id: BuildId, address: u64) -> u64 {
        let mut build_id = [0; 8];
        build_id[..id.as_bytes().len()].copy_from_slice(id.as_bytes());
        self.add(Entry::Place { build_id, len: id.as_bytes().len() as u8, address })
    }

    fn offset(&mut self, outer: u64, distance: u64) -> u64 {
        if distance == 0 { outer } else { self.add(Entry::Offset { outer, distance }) }
    }

    fn point(&mut self, token: &Token, mut outer: u64, point: &Point) -> u64 {
        for &CodeAddress { image, address, exact, .. } in &point.addresses {
            let place = self.place(token.images[image as usize], address);
            outer = self.add(Entry::Address { outer, place, exact });
        }
        let end = match point.end {
            PointEnd::Pushed => 0,
            PointEnd::Outermost => 1,
            PointEnd::Bound => 2,
            PointEnd::Lost => 3,
        };
        let left_out = point.left_out.map_or((0, 0), |(first, last)| (first as u8, last as u8));
        let end = End {
            end,
            detached: false,
            other_state: token.other_state,
            relative: false,
            left_out,
            gone: false,
        };
        self.add(Entry::End { outer, end })
    }

    /// The number that stands for a token; `None` if there is none.
    fn token(&mut self, token: &Token) -> Option<u64> {
        if token.cut || token.damaged || token.left {
            return None;
        }
        self.hybrid = token.with_offsets;
        let mut outer = self.place(token.images.first().copied().unwrap_or_default(), 0);
        let mut signals = token.signals.iter().rev().peekable();
        for at in (0..=token.frames.len()).rev() {
            if let Some(frame) = token.frames.get(at) {
                let place = self.place(token.images[frame.image as usize], frame.site);
                for _ in 0..frame.count {
                    outer = self.add(Entry::Site { outer, place, id: frame.id, left: frame.left });
                    outer = self.offset(outer, frame.distance);
                }
            }
            while let Some((_, point)) = signals.next_if(|(number, _)| *number == at) {
                outer = self.add(Entry::Signal { outer, id: point.id });
                outer = self.point(&Token { other_state: false, ..token.clone() }, outer, point);
            }
        }
        if let Some(capture) = &token.capture {
            let place = self.place(token.images[capture.image as usize], capture.site);
            outer = self.add(Entry::Site { outer, place, id: capture.id, left: false });
            return Some(self.offset(outer, capture.distance));
        }
        let point = token.point.as_ref()?;
        outer = self.add(Entry::Point { outer, id: point.id });
        Some(self.point(token, outer, point))
    }

    fn records(&self) -> Vec<[u64; 3]> {
        let record = |entry| Record { entry, hybrid: self.hybrid };
        (1..).zip(&self.entries).map(|(number, &entry)| record(entry).words(number)).collect()
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for token in token::tokens() {
        let mut maker = Maker::default();
        let _ = maker.token(&token);
        let file = file(&maker.records());
        seeds.push([&[RECORDS], &file[HEAD as usize..]].concat());
        seeds.push([&[FILE], &*file].concat());
    }
    seeds
}

fn check(input: &[u8]) {
    let bytes = match input {
        [FILE, bytes @ ..] => bytes.to_vec(),
        [RECORDS, bytes @ ..] => file(&records(bytes)),
        _ => return,
    };
    let file = match NumbersFile::from_bytes(bytes) {
        Ok(file) => file,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let last = file.given();
    let numbers = Numbers::from(file);
    let mut context = Context::default();
    for record in last.saturating_sub(NUMBERS)..=last.saturating_add(1) {
        let pairs = [1, 6].into_iter().filter_map(|range| pair(record, range));
        for number in pairs.chain([INTERNED | record]) {
            match decoder().decode_number_of(&numbers, number, &mut context) {
                Ok(()) => assert!(decoder().frames(&context).take(FRAMES).count() > 0),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of the last word of a record that are not its check.
    const CONTENT: u64 = (1 << 24) - 1;

    /// A number stands for the same context as its token.
    #[test]
    fn numbers_decode_as_tokens_do() {
        let mut compared = 0;
        for token in token::tokens() {
            let mut maker = Maker::default();
            let Some(number) = maker.token(&token) else { continue };
            let numbers = Numbers::from(NumbersFile::from_bytes(file(&maker.records())).unwrap());
            let (mut expected, mut found) = (Context::default(), Context::default());
            // Numbers keep no stack offsets of a point's addresses.
            let of_token = decoder().decode(&token, &mut expected);
            let of_number = decoder().decode_number_of(&numbers, INTERNED | number, &mut found);
            assert_eq!(of_number, of_token, "{token:?}");
            if of_token.is_ok() {
                let frames = |context| decoder().frames(context).take(FRAMES).collect::<Vec<_>>();
                assert_eq!(frames(&found), frames(&expected), "{token:?}");
                compared += 1;
            }
        }
        assert!(compared >= 6, "{compared}");
    }

    #[test]
    fn checks_are_put_to_records() {
        let mut maker = Maker::default();
        let _ = token::tokens().iter().map(|token| maker.token(token)).count();
        let made = maker.records();
        let bytes = &file(&made)[HEAD as usize..];
        let without: Vec<u8> = bytes
            .chunks_exact(8)
            .enumerate()
            .flat_map(|(i, word)| {
                let word = u64::from_le_bytes(word.try_into().unwrap());
                (if i % 3 == 2 { word & CONTENT } else { word }).to_le_bytes()
            })
            .collect();
        assert_eq!(records(&without), made);
    }
}
