//! Files made by hand, and files with errors.

use std::collections::HashMap;

use pcce_abi::numbers::{Entry, GIVEN, HEAD, PointEnd as End, Record, head, offset, pair};

use super::*;
use crate::token::{Capture, PointEnd, PushedFrame};

const ID: [u8; 8] = [0xa0, 1, 2, 3, 4, 5, 6, 7];
const LIB: [u8; 8] = [0xb0, 1, 2, 3, 4, 0, 0, 0];

/// The program is record 1; 2 and 3 are sites of it, 4 is one of a library.
const PROGRAM: u64 = 1;

fn place(build_id: [u8; 8], len: u8, address: u64) -> Entry {
    Entry::Place { build_id, len, address }
}

fn site(outer: u64, place: u64, id: u64) -> Entry {
    Entry::Site { outer, place, id, left: false }
}

/// The content of a file with these records, after those of the places above: the first one is record 5.
pub(crate) fn bytes(entries: &[Entry]) -> Vec<u8> {
    let places = [place(ID, 8, 0), place(ID, 8, 0x4004), place(ID, 8, 0x4009), place(LIB, 5, 0x100)];
    let all: Vec<Entry> = places.iter().chain(entries).copied().collect();
    let mut bytes = vec![0; HEAD as usize];
    bytes[..16].copy_from_slice(&head());
    bytes[GIVEN as usize..][..8].copy_from_slice(&(all.len() as u64).to_le_bytes());
    for (number, entry) in (1..).zip(all) {
        for word in (Record { entry, hybrid: false }).words(number) {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

fn read(entries: &[Entry], number: u64) -> Result<Numbered, NumberError> {
    Numbers::from(NumbersFile::from_bytes(bytes(entries)).unwrap()).read(number)
}

const INTERNED: u64 = pcce_abi::INTERNED;

fn frame(image: u32, site: u64, id: u64, count: u64) -> PushedFrame {
    PushedFrame { image, site, left: false, id, distance: 0, count }
}

#[test]
fn a_number_is_a_chain_and_a_capture_or_a_range() {
    let entries = [
        site(PROGRAM, 2, 7),
        site(5, 2, 7),
        Entry::Site { outer: 6, place: 4, id: 1, left: true },
        Entry::Offset { outer: 7, distance: 3 },
        site(8, 3, 9),
        Entry::Offset { outer: 9, distance: 6 },
        Entry::Range { outer: 8, number: 1 << 60 },
    ];
    let frames = |found: &Numbered| {
        let image = |id: &[u8]| found.token.images.iter().position(|i| i.as_bytes() == id).unwrap() as u32;
        let left = PushedFrame { left: true, distance: 3, ..frame(image(&LIB[..5]), 0x100, 1, 1) };
        vec![left, frame(image(&ID), 0x4004, 7, 2)]
    };
    let found = read(&entries, INTERNED | 10).unwrap();
    assert_eq!(found.token.frames, frames(&found));
    let capture = Capture { image: 0, site: 0x4009, id: 9, distance: 6 };
    assert_eq!((found.token.capture, found.range), (Some(capture), None));
    assert_eq!(found.program.as_bytes(), ID);
    for (number, range) in [(INTERNED | 11, 1 << 60), (pair(8, 77).unwrap(), 77)] {
        let found = read(&entries, number).unwrap();
        assert_eq!(found.token.frames, frames(&found));
        assert_eq!((found.token.capture, found.range), (None, Some(range)));
    }
    assert_eq!(read(&entries, 7).unwrap_err(), NumberError::NoNumber { number: 7 });
}

#[test]
fn points_end_with_how_they_end() {
    let end = |bits| Entry::End { outer: 7, end: End::from_bits(bits).unwrap() };
    let points = |first, bits| {
        [
            first,
            Entry::Address { outer: 5, place: 2, exact: true },
            Entry::Address { outer: 6, place: 4, exact: false },
        ]
        .into_iter()
        .chain([end(bits)])
        .collect::<Vec<_>>()
    };
    let entries = points(Entry::Point { outer: PROGRAM, id: 5 }, 1 | 1 << 3);
    let found = read(&entries, INTERNED | 8).unwrap();
    let point = found.token.point.unwrap();
    assert_eq!((point.id, point.end, found.token.other_state), (5, PointEnd::Outermost, true));
    assert_eq!(
        point.addresses.iter().map(|a| (a.address, a.exact)).collect::<Vec<_>>(),
        [(0x4004, true), (0x100, false)]
    );
    assert!(!found.token.damaged);
    // A point of a signal, with a chain that is not that of the activations there.
    for (bits, frames) in [(0, 2), (3 | 1 << 2 | 1 << 4, 1)] {
        // The chain outwards has smaller numbers.
        let mut all = vec![site(PROGRAM, 2, 1)];
        all.push(Entry::Signal { outer: 5, id: 5 });
        all.push(Entry::Address { outer: 6, place: 2, exact: true });
        all.push(Entry::End { outer: 7, end: End::from_bits(bits).unwrap() });
        all.push(site(8, 2, 3));
        all.push(site(9, 3, 4));
        let found = read(&all, INTERNED | 10).unwrap();
        assert_eq!(found.token.frames.len(), frames);
        assert_eq!(found.token.signals.len(), 1);
        assert_eq!(found.token.signals[0].0, 1);
        assert_eq!((found.token.damaged, found.token.start_missing), (bits != 0, bits != 0));
    }
}

#[test]
fn what_cannot_be_followed_is_damaged() {
    for start_missing in [false, true] {
        let entries = [Entry::Unknown { outer: PROGRAM, start_missing }, site(5, 2, 1), site(6, 3, 2)];
        let found = read(&entries, INTERNED | 7).unwrap();
        assert_eq!((found.token.damaged, found.token.start_missing), (true, start_missing));
        assert_eq!(found.token.frames.len(), 1);
    }
}

/// An id that counts from the id of a missing frame is useless.
#[test]
fn points_whose_frame_is_missing_have_no_start() {
    for relative in [false, true] {
        let entries = [
            Entry::Unknown { outer: PROGRAM, start_missing: false },
            Entry::Point { outer: 5, id: 3 },
            Entry::Address { outer: 6, place: 2, exact: false },
            Entry::End { outer: 7, end: End::from_bits(u64::from(relative) << 4).unwrap() },
        ];
        let found = read(&entries, INTERNED | 8).unwrap();
        assert_eq!((found.token.damaged, found.token.start_missing), (true, relative));
    }
}

#[test]
fn records_that_make_no_chain_are_refused() {
    let point = Entry::End { outer: 5, end: End::from_bits(0).unwrap() };
    let malformed: [(&[Entry], u64); 13] = [
        // The chain ends before the capture, or with a place of another kind.
        (&[], PROGRAM),
        (&[site(2, 3, 1)], 5),
        (&[site(3, 2, 1)], 5),
        // Chains that lead to themselves, or to later records.
        (&[site(5, 2, 1)], 5),
        (&[site(6, 2, 1), site(PROGRAM, 2, 1)], 5),
        // A frame instead of a capture, and captures in the middle.
        (&[Entry::Site { outer: PROGRAM, place: 2, id: 0, left: true }], 5),
        (&[site(PROGRAM, PROGRAM, 0)], 5),
        (&[Entry::Range { outer: PROGRAM, number: 7 }, site(5, 3, 1)], 6),
        (&[Entry::Unknown { outer: PROGRAM, start_missing: false }], 5),
        // Stack offsets without a site.
        (&[Entry::Offset { outer: PROGRAM, distance: 1 }], 5),
        (
            &[
                site(PROGRAM, 2, 1),
                Entry::Offset { outer: 5, distance: 1 },
                Entry::Offset { outer: 6, distance: 1 },
            ],
            7,
        ),
        // Points without addresses, and addresses without a point.
        (&[Entry::Point { outer: PROGRAM, id: 1 }, point], 6),
        (&[Entry::Address { outer: PROGRAM, place: 2, exact: true }], 5),
    ];
    for (entries, record) in malformed {
        let error = read(entries, INTERNED | record).unwrap_err();
        assert!(matches!(error, NumberError::Malformed { .. }), "{entries:?}: {error}");
    }
    assert_eq!(
        read(&[site(PROGRAM, 4000, 1)], INTERNED | 5).unwrap_err(),
        NumberError::NotGiven { record: 4000, given: 5 }
    );
}

#[test]
fn each_record_is_damaged_by_itself() {
    let entries: Vec<Entry> = (0..20).map(|i| site(PROGRAM, 3, i)).collect();
    let whole = bytes(&entries);
    for record in 5..=24 {
        for (change, size) in [(Some(3), whole.len()), (None, offset(record) as usize + 23)] {
            let mut bytes = whole.clone();
            bytes.truncate(size);
            if let Some(bit) = change {
                bytes[offset(record) as usize] ^= 1 << bit;
            }
            let numbers = Numbers::from(NumbersFile::from_bytes(bytes).unwrap());
            for other in 5..=24 {
                let found = numbers.read(INTERNED | other);
                let whole = if change.is_some() { other != record } else { other < record };
                assert_eq!(found.is_ok(), whole, "{record} {other}");
                let error = match change {
                    _ if whole => continue,
                    Some(_) => NumberError::Damaged { record },
                    None => NumberError::CutOff { record: other, size: size as u64 },
                };
                assert_eq!(found.unwrap_err(), error);
            }
        }
        // The record was not written, or only in part.
        for words in 0..3 {
            let mut bytes = whole.clone();
            bytes[offset(record) as usize + 8 * words..offset(record + 1) as usize].fill(0);
            let numbers = Numbers::from(NumbersFile::from_bytes(bytes).unwrap());
            let error = numbers.read(INTERNED | record).unwrap_err();
            assert!(
                matches!(error, NumberError::Missing { .. } | NumberError::Damaged { .. }),
                "{record} {words}: {error}"
            );
        }
    }
}

#[test]
fn other_files_are_refused_and_the_error_says_what_differs() {
    let whole = bytes(&[]);
    let mut errors = HashMap::new();
    let mut check = |name: &'static str, bytes: Vec<u8>, says: &str| {
        let error = NumbersFile::from_bytes(bytes).expect_err(name).to_string();
        assert!(error.contains(says), "{name}: {error}");
        errors.insert(name, error);
    };
    check("empty", Vec::new(), "no file of numbers");
    check("text", b"{\"version\":2}".to_vec(), "starts with bytes 7b 22");
    check("short", whole[..HEAD as usize - 1].to_vec(), "its head alone has 4096");
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    check("version", with(8, 2), "version 2");
    check("record size", with(12, 32), "byte 12 of its head");
    check("reserved", with(100, 1), "byte 100 of its head is 0x01");
    check("given", with(GIVEN as usize + 7, 1), "more than there can be");
    assert_eq!(errors.len(), 7);
    assert!(NumbersFile::from_bytes(whole).is_ok());
}

#[test]
fn a_large_file_with_holes_takes_no_memory() {
    let path = std::env::temp_dir().join(format!("pcce-numbers-{}", std::process::id()));
    std::fs::write(&path, bytes(&[site(PROGRAM, 3, 1)])).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    let numbers = NumbersFile::open(&path).map(Numbers::from);
    std::fs::remove_file(&path).unwrap();
    let numbers = numbers.unwrap();
    assert!(numbers.read(INTERNED | 5).is_ok());
    assert_eq!(numbers.read(INTERNED | 6).unwrap_err(), NumberError::NotGiven { record: 6, given: 5 });
}

/// Records are added while the file is open: after the end, and where there was reserved space.
#[test]
fn records_that_come_later_are_found() {
    let path = std::env::temp_dir().join(format!("pcce-numbers-growing-{}", std::process::id()));
    let whole = bytes(&[site(PROGRAM, 3, 1), site(5, 3, 1), site(6, 3, 1)]);
    let record = |number| offset(number) as usize..offset(number + 1) as usize;
    let mut start = whole[..record(6).end].to_vec();
    start[record(6)].fill(0);
    start[GIVEN as usize] = 5;
    std::fs::write(&path, start).unwrap();
    let numbers = Numbers::from(NumbersFile::open(&path).unwrap());
    let read = |number| numbers.read(INTERNED | number).map(|found| found.token.frames.len());
    assert!(read(5).is_ok());
    let none = NumberError::NotGiven { record: 6, given: 5 };
    assert_eq!(read(6).unwrap_err(), none);
    std::fs::write(&path, whole).unwrap();
    for number in 5..=7 {
        assert!(read(number).is_ok(), "{number}");
    }
    assert_eq!(read(8).unwrap_err(), NumberError::NotGiven { record: 8, given: 7 });
    std::fs::remove_file(&path).unwrap();
}
