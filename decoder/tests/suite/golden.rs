//! Golden contexts: dictionaries of each schema version, tokens of the programs that they are of, and the frames
//! that these were decoded to.
//!
//! `golden/v2` holds, for each program of `testsuite/programs` that is named here, what `pcce dict` wrote, also
//! of its libraries, and what `pcce decode --format json` wrote for the tokens that it printed. `golden/v3` has numbers
//! in place of tokens. They were made when the version was the newest, and are never written again.

use std::fs;
use std::path::{Path, PathBuf};

use pcce::Decoder;
use pcce::load::load;
use pcce::numbers::{Numbers, NumbersFile};
use pcce::render::Format;
use pcce::session::{Outcome, Session};
use pcce::store::Store;
use serde_json::Value;

/// The programs, each with its libraries.
const PROGRAMS: [(&str, &[&str]); 7] = [
    ("callbacks", &[]),
    // Built with a hybrid encoding.
    ("hybrid", &[]),
    ("left", &["left_inner", "left_middle"]),
    // Built as a module.
    ("recursion", &[]),
    ("tailcalls", &[]),
    // Built in targeted mode.
    ("targets", &[]),
    ("targets_library", &["library"]),
];

fn folder(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version)
}

/// The decoder of a program and its libraries.
fn decoder(version: &str, name: &str, libraries: &[&str]) -> Decoder {
    let files = libraries.iter().map(|library| format!("{name}.{library}.json"));
    let files = std::iter::once(format!("{name}.json")).chain(files);
    let dictionaries: Vec<_> = files.map(|file| load(&folder(version).join(file)).unwrap()).collect();
    Decoder::new(&dictionaries).unwrap()
}

/// The output as on a machine that has all libraries: elsewhere, what is not known to be instrumented has a build id.
fn with_libraries(found: &[u8]) -> String {
    let found = str::from_utf8(found).unwrap();
    let mut parts = found.split(",\"build_id\":\"");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + part.split_once('"').unwrap().1)
}

/// Decodes each token again.
fn check(version: &str, programs: &[(&str, &[&str])]) {
    for &(name, libraries) in programs {
        let decoder = decoder(version, name, libraries);
        let mut session = Session::new(&decoder, Format::Json);
        let frames = fs::read_to_string(folder(version).join(format!("{name}.frames"))).unwrap();
        assert!(frames.lines().count() >= 4, "{name}");
        for expected in frames.lines() {
            let line: Value = serde_json::from_str(expected).unwrap();
            let mut found = Vec::new();
            let outcome = session.decode(line["token"].as_str().unwrap().as_bytes(), &mut found).unwrap();
            assert_eq!(outcome, Outcome::Decoded, "{name}: {expected}");
            assert_eq!(with_libraries(&found), format!("{expected}\n"), "{name}");
        }
    }
}

#[test]
fn version_2_decodes_to_the_same_frames() {
    check("v2", &PROGRAMS);
}

/// Numbers of places into which captures were inlined, and of one with two lines.
#[test]
fn version_3_decodes_to_the_same_frames() {
    check("v3", &[("places", &[])]);
}

/// A file that eight programs have written, with two libraries; each kind of record is in it. `numbers` has their
/// dictionaries, the file, and what its numbers were decoded to. Nothing of it is written again either.
#[test]
fn numbers_of_version_1_decode_to_the_same_frames() {
    let folder = folder("numbers");
    let numbers = || Numbers::from(NumbersFile::open(&folder.join("v1.numbers")).unwrap());
    let store = Store::new(std::slice::from_ref(&folder), Vec::new()).with_numbers(Some(numbers()));
    let mut given = Decoder::new(&[]).unwrap();
    given.set_numbers(numbers());
    let mut session = Session::new(&given, Format::Json).searching(&store);
    let frames = fs::read_to_string(folder.join("v1.frames")).unwrap();
    assert_eq!(frames.lines().count(), 61);
    for expected in frames.lines() {
        let line: Value = serde_json::from_str(expected).unwrap();
        let mut found = Vec::new();
        let outcome = session.decode(line["token"].as_str().unwrap().as_bytes(), &mut found).unwrap();
        assert_eq!(outcome, Outcome::Decoded, "{expected}");
        assert_eq!(with_libraries(&found), format!("{expected}\n"));
    }
    // By its words: the head, and of each kind how many records there are.
    let bytes = fs::read(folder.join("v1.numbers")).unwrap();
    assert_eq!(bytes[..16], *b"PCCEnums\x01\0\0\0\x18\0\0\0");
    let mut kinds = [0; 12];
    for record in bytes[4096..].as_chunks::<24>().0 {
        kinds[usize::from(record[18] & 127)] += 1;
    }
    assert_eq!(kinds, [0, 80, 72, 8, 8, 21, 1, 10, 6, 42, 10, 16]);
}
