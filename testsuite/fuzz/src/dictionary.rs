//! Dictionaries: JSON documents and programs as bytes, and good dictionaries with edits, in all forms, with the right
//! lengths and checksums, which get further.

use std::sync::OnceLock;

use pcce::load::from_bytes;
use pcce::{Context, Decoder, program};
use pcce_dictionary::code::to_text;
use pcce_dictionary::section::SITES_ADDRESS_OFFSET;
use pcce_dictionary::{Dictionary, Encoding, Module};
use serde_json::Value;

use crate::common::elf::{Compression, Kind};
use crate::common::{self, code, elf, linked};
use crate::{Target, edits, token};

/// The first byte of an input tells its kind: a file; or edits of the program's dictionary with its machine code, which
/// is written as a JSON document or into a program; or edits of the dictionary of a program that was encoded at the
/// link, which is written as a document, as a linked record, or as an unlinked one.
const FILE: u8 = 0;
const DOCUMENT: u8 = 1;
const PROGRAM: u8 = 2;
const LINKED_DOCUMENT: u8 = 3;
const LINKED: u8 = 4;
const UNLINKED: u8 = 5;
/// The number of frames of a context that are looked at.
const FRAMES: usize = 2_000;

pub(crate) const TARGET: Target = Target { name: "dictionary", seeds, check };

fn seeds() -> Vec<Vec<u8>> {
    let (program, library) = (common::app(), common::lib());
    let files = [
        pcce_dictionary::to_json(&program),
        pcce_dictionary::to_json(&library),
        include_bytes!("../../../decoder/dictionary/tests/golden/v2.json").to_vec(),
        include_bytes!("../../../decoder/tests/golden/v2/recursion.json").to_vec(),
        elf::program(&program, &common::APP),
        elf::program(&linked::linked(), &linked::LINKED),
        unlinked(&serde_json::to_value(linked::linked()).expect("a dictionary is JSON"))
            .expect("it has modules"),
        elf::elf(Some(&elf::section(&library)), Some(&common::LIB), Compression::Zlib, Kind::Shared),
        elf::elf(Some(&elf::section(&library)), Some(&common::LIB), Compression::Zstd, Kind::Shared),
    ];
    let mut seeds: Vec<Vec<u8>> = files.map(|file| [&[FILE][..], &file].concat()).into();
    for form in [DOCUMENT, PROGRAM, LINKED_DOCUMENT, LINKED, UNLINKED] {
        seeds.push(vec![form]);
        seeds.extend(edits::seeds(document(form)).map(|edit| [&[form], &edit[..]].concat()));
    }
    seeds
}

/// The dictionary of a form, with the machine code as it is before it is compressed.
fn document(form: u8) -> &'static Value {
    static DOCUMENTS: OnceLock<[Value; 2]> = OnceLock::new();
    let documents = DOCUMENTS.get_or_init(|| {
        [common::app(), linked::linked()].map(|program| {
            let mut document = serde_json::to_value(&program).expect("a dictionary is JSON");
            document["code"] = serde_json::to_value(code::code(&program)).expect("a table is JSON");
            document
        })
    });
    &documents[usize::from(form >= LINKED_DOCUMENT)]
}

/// The file with an edited dictionary. None if the form cannot hold it.
fn edited(form: u8, edits: &[u8]) -> Option<Vec<u8>> {
    let mut document = edits::edited(document(form), edits);
    if let Some(code) = document.get_mut("code")
        && let Ok(table) = serde_json::from_value(code.clone())
    {
        *code = to_text(&table).into();
    }
    match form {
        DOCUMENT | LINKED_DOCUMENT => serde_json::to_vec(&document).ok(),
        UNLINKED => unlinked(&document),
        _ => {
            let modules: Vec<Module> = serde_json::from_value(document.get_mut("modules")?.take()).ok()?;
            let encodings: Vec<Encoding> =
                serde_json::from_value(document.get_mut("encodings")?.take()).ok()?;
            Some(if form == LINKED {
                let section = pcce_dictionary::linked::to_bytes(&modules, &encodings);
                elf::elf(Some(&section), Some(&linked::LINKED), Compression::None, Kind::Executable)
            } else {
                elf::program(&Dictionary { modules, encodings, ..Dictionary::default() }, &common::APP)
            })
        }
    }
}

/// A program without its link step: the first module of the document, and as its facts all encodings.
fn unlinked(document: &Value) -> Option<Vec<u8>> {
    let module: Module = serde_json::from_value(document.get("modules")?.get(0)?.clone()).ok()?;
    let mut record = pcce_dictionary::unlinked::to_bytes(&module, document.get("encodings")?);
    record[SITES_ADDRESS_OFFSET..][..8].copy_from_slice(&module.sites_address.to_le_bytes());
    Some(elf::elf(Some(&record), Some(&linked::LINKED), Compression::None, Kind::Executable))
}

fn check(input: &[u8]) {
    let result = match input {
        [FILE, bytes @ ..] => from_bytes(bytes, "input").inspect(|dictionary| {
            if bytes.starts_with(&pcce::ELF_MAGIC)
                && let Err(error) = program::code(bytes, None, dictionary)
            {
                assert!(!error.to_string().is_empty());
            }
        }),
        [form @ DOCUMENT..=UNLINKED, edits @ ..] => match edited(*form, edits) {
            Some(bytes) => from_bytes(&bytes, "input"),
            None => return,
        },
        _ => return,
    };
    match result {
        Ok(_) if input[0] == UNLINKED => panic!("a program without its link step was read"),
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
    for token in token::tokens().into_iter().chain(linked::tokens()) {
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

    /// Edits of a refused dictionary would test little.
    #[test]
    fn without_edits_they_are_good() {
        for [document, program] in [[DOCUMENT, PROGRAM], [LINKED_DOCUMENT, LINKED]] {
            let document = from_bytes(&edited(document, &[]).unwrap(), "input").unwrap();
            let program = from_bytes(&edited(program, &[]).unwrap(), &document.program).unwrap();
            assert_eq!(Dictionary { code: None, ..document.clone() }, program);
            assert!(document.code.is_some());
            Decoder::new(&[document]).unwrap();
        }
        let accepted = |form| {
            let files = edits::seeds(super::document(form)).filter_map(|edit| edited(form, &edit));
            files.filter(|file| from_bytes(file, "app").is_ok_and(|d| Decoder::new(&[d]).is_ok())).count()
        };
        for form in [DOCUMENT, PROGRAM, LINKED_DOCUMENT, LINKED] {
            assert!(accepted(form) > 50, "{form}");
        }
    }
}
