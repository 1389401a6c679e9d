//! Dictionaries: JSON documents and programs as bytes, and good dictionaries with edits, in both forms, with the right
//! lengths and checksums, which get further.

use std::sync::OnceLock;

use pcce::load::from_bytes;
use pcce::{Context, Decoder, program};
use pcce_dictionary::Dictionary;
use pcce_dictionary::code::to_text;
use serde_json::Value;

use crate::elf::{Compression, Kind};
use crate::{Target, app, code, edits, elf, token};

/// The first byte of an input says what the rest is: a file; or edits of the program's dictionary with its machine
/// code, which is written as a JSON document or into a program.
const FILE: u8 = 0;
const DOCUMENT: u8 = 1;
const PROGRAM: u8 = 2;
/// Of a context this much is looked at.
const FRAMES: usize = 2_000;

pub(crate) const TARGET: Target = Target { name: "dictionary", seeds, check };

fn seeds() -> Vec<Vec<u8>> {
    let (program, library) = (app::app(), app::lib());
    let files = [
        pcce_dictionary::to_json(&program),
        pcce_dictionary::to_json(&library),
        include_bytes!("../../../decoder/dictionary/tests/golden/v2.json").to_vec(),
        // Of the version before.
        include_bytes!("../../../decoder/tests/golden/v1/recursion.json").to_vec(),
        elf::program(&program, &app::APP),
        elf::elf(Some(&elf::section(&library)), Some(&app::LIB), Compression::Zlib, Kind::Shared),
        elf::elf(Some(&elf::section(&library)), Some(&app::LIB), Compression::Zstd, Kind::Shared),
    ];
    let mut seeds: Vec<Vec<u8>> = files.map(|file| [&[FILE][..], &file].concat()).into();
    for form in [DOCUMENT, PROGRAM] {
        seeds.push(vec![form]);
        seeds.extend(edits::seeds(document()).map(|edit| [&[form], &edit[..]].concat()));
    }
    seeds
}

/// The program's dictionary, with the machine code as it is before it is compressed.
fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let program = app::app();
        let mut document = serde_json::to_value(&program).expect("a dictionary is JSON");
        document["code"] = serde_json::to_value(code::code(&program)).expect("a table is JSON");
        document
    })
}

/// The file with an edited dictionary. None if the form cannot hold it.
fn edited(form: u8, edits: &[u8]) -> Option<Vec<u8>> {
    let mut document = edits::edited(document(), edits);
    if let Some(code) = document.get_mut("code")
        && let Ok(table) = serde_json::from_value(code.clone())
    {
        *code = to_text(&table).into();
    }
    if form == DOCUMENT {
        return serde_json::to_vec(&document).ok();
    }
    let modules = serde_json::from_value(document.get_mut("modules")?.take()).ok()?;
    let encodings = serde_json::from_value(document.get_mut("encodings")?.take()).ok()?;
    Some(elf::program(&Dictionary { modules, encodings, ..Dictionary::default() }, &app::APP))
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
        [form @ (DOCUMENT | PROGRAM), edits @ ..] => match edited(*form, edits) {
            Some(bytes) => from_bytes(&bytes, "input"),
            None => return,
        },
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
    let mut context = Context::default();
    let show = |result: Result<(), pcce::DecodeError>, context: &Context| match result {
        Ok(()) => assert!(decoder.frames(context).take(FRAMES).count() > 0),
        Err(error) => assert!(!error.to_string().is_empty()),
    };
    for token in token::tokens() {
        let result = decoder.decode(&token, &mut context);
        show(result, &context);
    }
    for number in [0, 1, 4, 7, 100, 1 << 40, u64::MAX] {
        let result = decoder.decode_number(number, &mut context);
        show(result, &context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Edits of what is refused would show little.
    #[test]
    fn without_edits_they_are_good() {
        let document = from_bytes(&edited(DOCUMENT, &[]).unwrap(), "input").unwrap();
        let program = from_bytes(&edited(PROGRAM, &[]).unwrap(), "app").unwrap();
        assert_eq!(Dictionary { code: None, ..document.clone() }, program);
        assert!(document.code.is_some());
        Decoder::new(&[document]).unwrap();
        let accepted = |form| {
            let files = edits::seeds(super::document()).filter_map(|edit| edited(form, &edit));
            files.filter(|file| from_bytes(file, "app").is_ok_and(|d| Decoder::new(&[d]).is_ok())).count()
        };
        assert!(accepted(DOCUMENT) > 50 && accepted(PROGRAM) > 50);
    }
}
