//! Golden files: each schema version that was ever released stays readable.
//!
//! `golden/v1.json` and `golden/v1.fragment` hold [`v1`]. They were written by this file's own
//! `write_golden_files` (`cargo test -p pcce-dictionary --test golden -- --ignored`) when version 1
//! was made, and are never written again: a change of the types that changes them is a new version,
//! with new files beside the old ones.

use std::path::PathBuf;

use pcce_dictionary::{
    Dictionary, Edge, EdgeCode, Function, Location, Module, SCHEMA_VERSION, Site, SiteKind, fragment,
    from_json, to_json,
};

/// A dictionary with each kind of row and each variant in it.
fn v1() -> Dictionary {
    let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let location = |name, line| Location { name, file: 1, line, column: 0 };
    let site = |function, kind, locations| Site { function, kind, tail_group: None, locations };
    let edge = |site, callee, code| Edge { site, callee, code, frame: None };
    let module = Module {
        name: "src/main.c".to_owned(),
        producer: "pcce 0.1.0, LLVM 19.1.7".to_owned(),
        options: strings(&["mode=lto", "quote=\"\\\u{e4}\u{1f980}"]),
        sites_address: 0xffff_ffff_8000_0000,
        open_num_cc: Some(2),
        hybrid_rounds: None,
        leaving_groups: vec![],
        files: strings(&["/src/main.c", "include/inline.h"]),
        names: strings(&["main", "_ZN1a1bEv", "qsort"]),
        functions: vec![
            Function {
                num_cc: 1,
                entry: true,
                open: true,
                external: true,
                range: Some(1),
                ..Function::default()
            },
            Function { name: 1, num_cc: u64::MAX, offset: i64::MIN, ..Function::default() },
            Function { name: 2, num_cc: 1, entry: true, silent: true, ..Function::default() },
        ],
        sites: vec![
            site(0, SiteKind::Direct, vec![location(1, 7), location(0, 42)]),
            site(0, SiteKind::External(2), vec![location(0, u32::MAX)]),
            site(1, SiteKind::Indirect, vec![]),
            site(1, SiteKind::Asm, vec![]),
            site(1, SiteKind::Capture, vec![]),
            site(1, SiteKind::Entry, vec![]),
        ],
        edges: vec![
            edge(0, Some(1), EdgeCode::Add(u64::MAX - 1)),
            edge(0, None, EdgeCode::Open(1)),
            edge(0, Some(0), EdgeCode::Back),
            edge(0, Some(1), EdgeCode::Cut),
            edge(0, Some(1), EdgeCode::Required),
        ],
    };
    Dictionary {
        version: 1,
        build_id: "00ff0123456789abcdef".to_owned(),
        program: "app".to_owned(),
        modules: vec![module, Module::default()],
        code: None,
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

#[test]
#[ignore = "writes the golden files: only for a new schema version"]
fn write_golden_files() {
    let version = SCHEMA_VERSION;
    std::fs::write(path(&format!("v{version}.json")), to_json(&v1())).unwrap();
    let mut bytes = fragment::to_bytes(&v1().modules[0]);
    let at = fragment::SITES_ADDRESS_OFFSET;
    bytes[at..at + 8].copy_from_slice(&v1().modules[0].sites_address.to_le_bytes());
    bytes.extend(fragment::to_bytes(&v1().modules[1]));
    std::fs::write(path(&format!("v{version}.fragment")), bytes).unwrap();
}

#[test]
fn version_1_is_read() {
    assert_eq!(from_json(&golden("v1.json")).unwrap(), v1());
    assert_eq!(fragment::parse_section(&golden("v1.fragment")).unwrap(), v1().modules);
}

#[test]
fn version_1_is_written() {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert_eq!(text(to_json(&v1())), text(golden("v1.json")));
    assert!(golden("v1.json").starts_with(b"{\"version\":1,"));
}
