//! Version 1 read as version 2: what it says is kept exactly, or refused.

use std::io::Write;

use pcce_dictionary::section::{self, Record};
use pcce_dictionary::{
    Dictionary, DictionaryError, Edge, EdgeCode, EncodedFunction, Encoding, Fragment, Function, Hybrid,
    Location, Module, Site, SiteKind, fragment, from_json, to_json, v1,
};

/// A dictionary of version 1 with everything that version 2 can say.
fn old() -> v1::Dictionary {
    let at = |name, line| v1::Location { name, file: 0, line, column: 3 };
    let site = |function, kind, tail_group, locations| v1::Site { function, kind, tail_group, locations };
    let edge = |site, callee, code, frame| v1::Edge { site, callee, code, frame };
    let program = v1::Module {
        name: "main.c".into(),
        producer: "pass".into(),
        options: vec!["executable".into(), "target=store".into()],
        sites_address: 7,
        open_num_cc: Some(2),
        hybrid_rounds: Some(3),
        files: vec!["main.c".into()],
        names: vec!["main".into(), "f".into()],
        functions: vec![
            v1::Function {
                num_cc: 4,
                entry: true,
                open: true,
                external: true,
                aliases: vec![1],
                range: Some(9),
                unknown_base: true,
                tail_groups: vec![5],
                ..v1::Function::default()
            },
            v1::Function {
                name: 1,
                num_cc: 1,
                offset: -2,
                silent: true,
                push_thunk: true,
                jumped_to: true,
                frame_offset: Some(16),
                ..v1::Function::default()
            },
        ],
        sites: vec![
            site(0, v1::SiteKind::Direct, None, vec![at(0, 1), at(1, 2)]),
            // Of a silent function, in verify mode.
            site(0, v1::SiteKind::Direct, None, vec![]),
            site(0, v1::SiteKind::External(1), None, vec![]),
            site(0, v1::SiteKind::Indirect, Some(5), vec![]),
            site(1, v1::SiteKind::Asm, None, vec![]),
            site(1, v1::SiteKind::Capture, None, vec![]),
            site(1, v1::SiteKind::Entry, None, vec![]),
            site(1, v1::SiteKind::Direct, None, vec![]),
        ],
        leaving_groups: vec![5],
        edges: vec![
            edge(0, Some(1), v1::EdgeCode::Add(3), Some(0)),
            edge(3, None, v1::EdgeCode::Open(2), None),
            edge(2, None, v1::EdgeCode::Cut, None),
            edge(4, None, v1::EdgeCode::Required, None),
            edge(7, Some(0), v1::EdgeCode::Back, Some(24)),
        ],
    };
    // Without an open node the option meant nothing.
    let library = v1::Module { options: program.options.clone(), ..v1::Module::default() };
    v1::Dictionary {
        version: 1,
        build_id: "ab".into(),
        program: "app".into(),
        modules: vec![program, library],
        code: Some("text".into()),
    }
}

/// The same in version 2.
fn new() -> Dictionary {
    let at = |name, line| Location { name, file: 0, line, column: 3 };
    let site = |function, kind, tail_group, locations| Site { function, kind, tail_group, locations };
    let program = Module {
        name: "main.c".into(),
        producer: "pass".into(),
        options: vec!["executable".into(), "target=store".into()],
        sites_address: 7,
        targeted: true,
        files: vec!["main.c".into()],
        names: vec!["main".into(), "f".into()],
        functions: vec![
            Function { external: true, aliases: vec![1], tail_groups: vec![5], ..Function::default() },
            Function { name: 1, silent: true, push_thunk: true, jumped_to: true, ..Function::default() },
        ],
        sites: vec![
            site(0, SiteKind::Direct(Some(1)), None, vec![at(0, 1), at(1, 2)]),
            site(0, SiteKind::Direct(None), None, vec![]),
            site(0, SiteKind::External(1), None, vec![]),
            site(0, SiteKind::Indirect, Some(5), vec![]),
            site(1, SiteKind::Asm, None, vec![]),
            site(1, SiteKind::Capture, None, vec![]),
            site(1, SiteKind::Entry, None, vec![]),
            site(1, SiteKind::Direct(Some(0)), None, vec![]),
        ],
        leaving_groups: vec![5],
        skipped: vec![],
    };
    let encoding = Encoding {
        epoch: 0,
        first_module: 0,
        module_count: 1,
        open_num_cc: Some(2),
        functions: vec![
            EncodedFunction { num_cc: 4, id_offset: 0, entry: true, open: true, range: Some(9) },
            EncodedFunction { num_cc: 1, id_offset: -2, entry: false, open: false, range: None },
        ],
        edges: vec![
            Edge { site: 0, callee: None, code: EdgeCode::Add(3) },
            Edge { site: 3, callee: None, code: EdgeCode::Open(2) },
            Edge { site: 2, callee: None, code: EdgeCode::Cut },
            Edge { site: 4, callee: None, code: EdgeCode::Required },
            Edge { site: 7, callee: None, code: EdgeCode::Back },
        ],
        hybrid: Some(Hybrid {
            rounds: 3,
            stack_sizes: vec![(1, 16)],
            unknown_bases: vec![0],
            stack_offsets: vec![(0, 0), (4, 24)],
        }),
    };
    let library = Module { options: program.options.clone(), ..Module::default() };
    Dictionary {
        version: 2,
        build_id: "ab".into(),
        program: "app".into(),
        modules: vec![program, library],
        encodings: vec![encoding, Encoding { first_module: 1, module_count: 1, ..Encoding::default() }],
        code: Some("text".into()),
    }
}

/// A fragment as builds of version 1 made it.
fn fragment_of(module: &v1::Module) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&serde_json::to_vec(module).unwrap()).unwrap();
    let payload = encoder.finish().unwrap();
    let mut crc = flate2::Crc::new();
    crc.update(&payload);
    let mut bytes = fragment::MAGIC.to_vec();
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(module.sites_address.to_le_bytes());
    bytes.extend(crc.sum().to_le_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn all_that_it_says_is_kept() {
    let upgraded = from_json(&serde_json::to_vec(&old()).unwrap()).unwrap();
    assert_eq!(upgraded, new());
    assert_eq!(from_json(&to_json(&upgraded)).unwrap(), new());
}

#[test]
fn programs_may_have_fragments_of_both_versions() {
    let Dictionary { mut modules, mut encodings, .. } = new();
    encodings.truncate(1);
    let newer = fragment::to_bytes(&modules[0], &encodings);
    let section = [fragment_of(&old().modules[0]), newer].concat();
    let found = section::parse(&section).unwrap();
    let module = modules.swap_remove(0);
    // The linker's address is in the header.
    let later =
        Fragment { module: Module { sites_address: 0, ..module.clone() }, encodings: encodings.clone() };
    assert_eq!(found, [Fragment { module, encodings }, later].map(Record::Fragment));
}

#[test]
fn what_version_2_cannot_say_is_refused() {
    type Change<'a> = &'a dyn Fn(&mut v1::Module);
    let cases: &[(Change<'_>, &str)] = &[
        (&|m| m.sites[2].kind = v1::SiteKind::Signal, "a site is of the kind signal"),
        (&|m| m.functions[0].tail_called = true, "a function has the member tail_called"),
        (&|m| m.hybrid_rounds = None, "it has stack offsets, and no hybrid encoding"),
        (&|m| m.edges.push(m.edges[0]), "edge 5 is at site 0, which has another edge already"),
        (&|m| m.edges[1].callee = Some(0), "edge 1 is at site 3, which is no direct call"),
        (&|m| m.edges[0].site = 99, "edge 0 is at site 99, which is no direct call"),
        (&|m| m.edges[0].callee = None, "edge 0 is of a direct call, and names no callee"),
    ];
    for (change, expected) in cases {
        let mut dictionary = old();
        change(&mut dictionary.modules[0]);
        let error = from_json(&serde_json::to_vec(&dictionary).unwrap()).unwrap_err();
        assert!(matches!(error, DictionaryError::Upgrade(_)), "{error}");
        let error = error.to_string();
        assert!(
            error.contains(&format!(
                "schema version 1, and what it says cannot be read as version 2: module main.c: {expected}"
            )),
            "{error}"
        );
        assert!(
            error.contains("build the program again, or use the pcce of the release that built it"),
            "{error}"
        );
        let error = section::parse(&fragment_of(&dictionary.modules[0])).unwrap_err().to_string();
        assert!(
            error.contains(&format!("offset 0: of schema version 1: module main.c: {expected}")),
            "{error}"
        );
    }
}
