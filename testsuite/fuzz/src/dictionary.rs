//! Dictionaries: JSON documents and programs as bytes, and a good dictionary with other numbers in it, which gets
//! further.

use std::fmt::Write as _;

use pcce::load::from_bytes;
use pcce::{Decoder, Trace, program};
use pcce_dictionary::Dictionary;

use crate::elf::{Compression, Kind};
use crate::{Target, app, elf, token};

/// The first byte of an input says what the rest is: 0, a file; 1, changes of the numbers in the JSON document of the program:
/// index of the number and value, 2 and 8 bytes.
const FILE: u8 = 0;
const CHANGES: u8 = 1;
/// Of a trace this much is looked at.
const FRAMES: usize = 2_000;

pub(crate) const TARGET: Target = Target { name: "dictionary", seeds, check };

fn seeds() -> Vec<Vec<u8>> {
    let (program, library) = (app::app(), app::lib());
    let files = [
        pcce_dictionary::to_json(&program),
        pcce_dictionary::to_json(&library),
        include_bytes!("../../../decoder/dictionary/tests/golden/v1.json").to_vec(),
        elf::program(&program, &app::APP),
        elf::elf(Some(&elf::section(&library)), Some(&app::LIB), Compression::Zlib, Kind::Shared),
        elf::elf(Some(&elf::section(&library)), Some(&app::LIB), Compression::Zstd, Kind::Shared),
    ];
    let mut seeds: Vec<Vec<u8>> = files.map(|file| [&[FILE][..], &file].concat()).into();
    for number in 0..40_u16 {
        for value in [0, 1, u64::MAX, 1 << 32] {
            let mut seed = vec![CHANGES];
            seed.extend(number.wrapping_mul(7).to_le_bytes());
            seed.extend(value.to_le_bytes());
            seeds.push(seed);
        }
    }
    seeds
}

/// The document with other numbers in it.
fn changed(changes: &[u8]) -> Vec<u8> {
    let document = pcce_dictionary::to_json(&app::app());
    let text = str::from_utf8(&document).expect("JSON is UTF-8");
    let (mut pieces, mut rest) = (vec![], text);
    // Numbers in JSON's strings are as good.
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let length = rest[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - start);
        pieces.push((&rest[..start], rest[start..start + length].to_owned()));
        rest = &rest[start + length..];
    }
    for change in changes.chunks_exact(10) {
        let number = usize::from(u16::from_le_bytes([change[0], change[1]])) % pieces.len();
        let value = u64::from_le_bytes(change[2..].try_into().expect("8 bytes"));
        pieces[number].1 = value.to_string();
    }
    let mut out = String::new();
    for (before, number) in pieces {
        let _ = write!(out, "{before}{number}");
    }
    (out + rest).into_bytes()
}

fn check(input: &[u8]) {
    let result = match input {
        [FILE, bytes @ ..] => from_bytes(bytes, "input").inspect(|dictionary| {
            if bytes.starts_with(&program::ELF_MAGIC)
                && let Err(error) = program::code(bytes, None, dictionary)
            {
                assert!(!error.to_string().is_empty());
            }
        }),
        [CHANGES, changes @ ..] => from_bytes(&changed(changes), "input"),
        _ => return,
    };
    match result {
        Ok(dictionary) => decode(&dictionary),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Uses a dictionary that was accepted.
fn decode(dictionary: &Dictionary) {
    let again = pcce_dictionary::from_json(&pcce_dictionary::to_json(dictionary)).expect("it can be written");
    assert_eq!(&again, dictionary);
    let decoder = match Decoder::new(std::slice::from_ref(dictionary)) {
        Ok(decoder) => decoder,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut trace = Trace::default();
    let show = |result: Result<(), pcce::DecodeError>, trace: &mut Trace| match result {
        Ok(()) => assert!(trace.frames(&decoder).take(FRAMES).count() > 0),
        Err(error) => assert!(!error.to_string().is_empty()),
    };
    for token in token::tokens() {
        let result = decoder.decode(&token, &mut trace);
        show(result, &mut trace);
    }
    for number in [0, 1, 4, 7, 100, 1 << 40, u64::MAX] {
        let result = decoder.decode_number(number, &mut trace);
        show(result, &mut trace);
    }
}
