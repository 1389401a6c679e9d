//! Golden files: each schema version stays readable.
//!
//! `golden/v3.json` holds [`v3`], and `golden/v3.section` its [`records`]; version 2 has such files, too.
//! They were written by this file's own `write_golden_files` (`cargo test -p pcce-dictionary --test suite -- golden::
//! --ignored`) when their version was made, and are never written again: a change of the types that changes them is
//! a new version, with new files beside the old ones.

use std::path::PathBuf;

use pcce_dictionary::section::Record;
use pcce_dictionary::{
    Dictionary, Edge, EdgeCode, EncodedFunction, Encoding, Epoch, Fragment, Function, Hybrid, Linked,
    Location, Module, NumberPlace, SCHEMA_VERSION, Site, SiteKind, SkipReason, Skipped, Unlinked, fragment,
    from_json, linked, section, to_json, unlinked,
};
use serde_json::json;
use serde_json::value::RawValue;

/// A dictionary of version 3 with each kind of row and each variant in it.
fn v3() -> Dictionary {
    let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let location = |name, line| Location { name, file: 1, line, column: 0 };
    let site = |function, kind, tail_group, locations| Site { function, kind, tail_group, locations };
    let skipped = |reason, functions| Skipped { reason, functions };
    let module = Module {
        name: "src/main.c".to_owned(),
        producer: "pcce 0.1.0, LLVM 19.1.7".to_owned(),
        options: strings(&["mode=lto", "quote=\"\\\u{e4}\u{1f980}"]),
        sites_address: 0xffff_ffff_8000_0000,
        targeted: true,
        files: strings(&["/src/main.c", "include/inline.h"]),
        names: strings(&["main", "_ZN1a1bEv", "qsort"]),
        functions: vec![
            Function { external: true, aliases: vec![1, 2], ..Function::default() },
            Function { name: 1, push_thunk: true, jumped_to: true, ..Function::default() },
            Function { name: 2, silent: true, tail_groups: vec![0, 3], ..Function::default() },
        ],
        sites: vec![
            site(0, SiteKind::Direct(Some(1)), None, vec![location(1, 7), location(0, 42)]),
            site(0, SiteKind::Direct(None), None, vec![]),
            site(0, SiteKind::External(2), None, vec![location(0, u32::MAX)]),
            site(1, SiteKind::Indirect, Some(3), vec![]),
            site(1, SiteKind::Asm, None, vec![]),
            site(1, SiteKind::Capture, None, vec![]),
            site(1, SiteKind::Entry, None, vec![]),
        ],
        leaving_groups: vec![3],
        skipped: vec![
            skipped(SkipReason::OtherCopy, 1),
            skipped(SkipReason::Naked, 2),
            skipped(SkipReason::Coroutine, 3),
            skipped(SkipReason::Runtime, 4),
            skipped(SkipReason::IfuncResolver, 5),
            skipped(SkipReason::TailCalls, u32::MAX),
        ],
    };
    let row = |num_cc, id_offset| EncodedFunction { num_cc, id_offset, ..EncodedFunction::default() };
    let place = |site, base, line| NumberPlace { site, base, line };
    let encoding = Encoding {
        epoch: Epoch,
        first_module: 0,
        module_count: 1,
        open_num_cc: Some(2),
        functions: vec![
            EncodedFunction { entry: true, open: true, ..row(1, 0) },
            row(u64::MAX, i64::MIN),
            row(1, 0),
        ],
        edges: vec![
            Edge { site: 0, callee: None, code: EdgeCode::Add(u64::MAX - 1) },
            Edge { site: 3, callee: None, code: EdgeCode::Open(1) },
            Edge { site: 1, callee: None, code: EdgeCode::Back },
            Edge { site: 2, callee: Some(2), code: EdgeCode::Cut },
            Edge { site: 4, callee: None, code: EdgeCode::Required },
        ],
        places: vec![place(5, Some(1), true), place(5, Some(u64::MAX >> 1), false), place(5, None, true)],
        hybrid: Some(Hybrid {
            rounds: 2,
            stack_sizes: vec![(0, 24), (1, u32::MAX)],
            unknown_bases: vec![1],
            stack_offsets: vec![(0, 0)],
        }),
    };
    let other = Encoding {
        first_module: 1,
        open_num_cc: None,
        functions: vec![],
        edges: vec![],
        places: vec![],
        hybrid: None,
        ..encoding
    };
    Dictionary {
        version: 3,
        build_id: "00ff0123456789abcdef".to_owned(),
        program: "app".to_owned(),
        modules: vec![module, Module::default()],
        encodings: vec![encoding, other],
        code: Some("eJw".to_owned()),
    }
}

/// The dictionary of [`v3`] in version 2, in which functions have ranges.
fn v2() -> Dictionary {
    let mut old = Dictionary { version: 2, ..v3() };
    old.encodings.iter_mut().for_each(|encoding| encoding.places.clear());
    old.encodings[0].functions[0].range = Some(1);
    old
}

/// Records of each kind, of which the fragments are those of the dictionary.
fn records(of: Dictionary) -> Vec<Record> {
    let Dictionary { modules, encodings, .. } = of;
    let unlinked = Unlinked {
        module: modules[0].clone(),
        facts: json!({"calls": [1, -2, 1.5, "\u{1f980}"], "none": null}).to_string(),
    };
    let both = Encoding { module_count: 2, ..encodings[0].clone() };
    let linked = Linked { modules: modules.clone(), encodings: vec![both, encodings[1].clone()] };
    let fragment = |(module, encoding)| {
        Record::Fragment(Fragment { module, encodings: vec![Encoding { first_module: 0, ..encoding }] })
    };
    let fragments = modules.into_iter().zip(encodings).map(fragment);
    fragments.chain([Record::Unlinked(unlinked), Record::Linked(linked)]).collect()
}

/// A record of a module after the linker has filled in its address.
fn relocated(mut bytes: Vec<u8>, module: &Module) -> Vec<u8> {
    let at = section::SITES_ADDRESS_OFFSET;
    bytes[at..at + 8].copy_from_slice(&module.sites_address.to_le_bytes());
    bytes
}

fn to_bytes(record: &Record) -> Vec<u8> {
    match record {
        Record::Fragment(Fragment { module, encodings }) => {
            relocated(fragment::to_bytes(module, encodings), module)
        }
        Record::Unlinked(Unlinked { module, facts }) => {
            let facts: Box<RawValue> = serde_json::from_str(facts).unwrap();
            relocated(unlinked::to_bytes(module, &facts), module)
        }
        Record::Linked(Linked { modules, encodings }) => linked::to_bytes(modules, encodings),
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
    std::fs::write(path(&format!("v{version}.json")), to_json(&v3())).unwrap();
    let section: Vec<u8> = records(v3()).iter().flat_map(to_bytes).collect();
    std::fs::write(path(&format!("v{version}.section")), section).unwrap();
}

#[test]
fn version_2_is_read() {
    assert_eq!(from_json(&golden("v2.json")).unwrap(), v2());
    assert_eq!(section::parse(&golden("v2.section")).unwrap(), records(v2()));
}

#[test]
fn version_3_is_read() {
    assert_eq!(from_json(&golden("v3.json")).unwrap(), v3());
    assert_eq!(section::parse(&golden("v3.section")).unwrap(), records(v3()));
}

#[test]
fn version_3_is_written() {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert_eq!(text(to_json(&v3())), text(golden("v3.json")));
    assert!(golden("v3.json").starts_with(b"{\"version\":3,"));
    // Compression is no part of a version, so the section is compared after reading it.
    let section: Vec<u8> = records(v3()).iter().flat_map(to_bytes).collect();
    assert_eq!(section::parse(&section).unwrap(), records(v3()));
}
