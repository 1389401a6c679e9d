//! A program that was encoded as a whole at the link, made by hand: two modules in one encoding, and behind them one
//! that has an encoding of its own.
//!
//! ```text
//! a.c                                                     numCC  id offset
//!   0 main   ─0→ visit (site 0), ─1→ visit (1), ─0→ walk (2)   1       0   entry
//!   1 walk   ─2→ visit (3), *pointer (4, open: 1), capture (5) 1       4
//! b.c
//!   2 visit  back edge → walk (6), ─2→ leaf (7), capture (11)  3       3
//!   3 leaf   capture (8), outside (9), cut edge → walk (10)    5       0   entry, open
//! apart.c
//!   apart    capture (0)
//! ```
//!
//! Calls from a.c to b.c and back are calls by name that the link has bound. The open node has two numbers: its own
//! start, and the call through a pointer in `walk`.

#![allow(dead_code)]

use pcce::token::{BuildId, Capture, PushedFrame, Token};
use pcce_dictionary::{
    Dictionary, Edge, EdgeCode, EncodedFunction, Encoding, Function, Location, Module, Site, SiteKind,
};

/// Its build id.
pub const LINKED: [u8; 20] = [0xc0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
/// Address of the sites of a.c; those of b.c are in front of them.
pub const A: u64 = 0x5000;
/// Address of the sites of b.c.
pub const B: u64 = 0x4000;
/// Address of the site of apart.c.
pub const APART: u64 = 0x6000;

/// Sites, by address.
pub mod site {
    pub const MAIN_VISIT: u64 = super::A;
    pub const WALK_VISIT: u64 = super::A + 3;
    pub const WALK_CAPTURE: u64 = super::A + 5;
    pub const VISIT_WALK: u64 = super::B;
    pub const VISIT_LEAF: u64 = super::B + 1;
    pub const LEAF_CAPTURE: u64 = super::B + 2;
    pub const LEAF_OUTSIDE: u64 = super::B + 3;
    pub const LEAF_WALK: u64 = super::B + 4;
    pub const VISIT_CAPTURE: u64 = super::B + 5;
    pub const APART_CAPTURE: u64 = super::APART;
}

fn module(file: &str, sites_address: u64, names: &[&str], sites: Vec<(u32, SiteKind)>) -> Module {
    let site = |(line, (function, kind)): (u32, (u32, SiteKind))| Site {
        function,
        kind,
        tail_group: None,
        locations: vec![Location { name: function, file: 0, line, column: 0 }],
    };
    let functions = 1 + sites.iter().map(|(function, _)| *function).max().unwrap();
    Module {
        name: file.to_owned(),
        producer: "pcce 0.1.0, LLVM 19".to_owned(),
        options: vec!["mode=link".to_owned()],
        sites_address,
        files: vec![format!("/src/{file}")],
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        functions: (0..functions)
            .map(|name| Function { name, external: true, ..Function::default() })
            .collect(),
        sites: (10..).zip(sites).map(site).collect(),
        ..Module::default()
    }
}

/// Its dictionary. The lines of sites are counted from 10 on in each module.
pub fn linked() -> Dictionary {
    let a = vec![
        (0, SiteKind::External(2)),
        (0, SiteKind::External(2)),
        (0, SiteKind::Direct(Some(1))),
        (1, SiteKind::External(2)),
        (1, SiteKind::Indirect),
        (1, SiteKind::Capture),
    ];
    let b = vec![
        (0, SiteKind::External(2)),
        (0, SiteKind::Direct(Some(1))),
        (1, SiteKind::Capture),
        (1, SiteKind::External(3)),
        (1, SiteKind::External(2)),
        (0, SiteKind::Capture),
    ];
    let encoded = |num_cc, id_offset, range| EncodedFunction {
        num_cc,
        id_offset,
        range: Some(range),
        ..EncodedFunction::default()
    };
    let edge = |site, callee, code| Edge { site, callee, code };
    let both = Encoding {
        module_count: 2,
        open_num_cc: Some(2),
        functions: vec![
            EncodedFunction { entry: true, ..encoded(1, 0, 1) },
            encoded(1, 4, 2),
            encoded(3, 3, 3),
            EncodedFunction { entry: true, open: true, ..encoded(5, 0, 6) },
        ],
        edges: vec![
            edge(0, Some(2), EdgeCode::Add(0)),
            edge(1, Some(2), EdgeCode::Add(1)),
            edge(2, None, EdgeCode::Add(0)),
            edge(3, Some(2), EdgeCode::Add(2)),
            edge(4, None, EdgeCode::Open(1)),
            edge(6, Some(1), EdgeCode::Back),
            edge(7, None, EdgeCode::Add(2)),
            edge(10, Some(1), EdgeCode::Cut),
        ],
        ..Encoding::default()
    };
    let apart = Encoding {
        first_module: 2,
        module_count: 1,
        functions: vec![EncodedFunction { num_cc: 1, entry: true, ..EncodedFunction::default() }],
        ..Encoding::default()
    };
    Dictionary {
        build_id: LINKED.iter().map(|byte| format!("{byte:02x}")).collect(),
        program: "linked".to_owned(),
        modules: vec![
            module("a.c", A, &["main", "walk", "visit"], a),
            module("b.c", B, &["visit", "leaf", "walk", "outside"], b),
            module("apart.c", APART, &["apart"], vec![(0, SiteKind::Capture)]),
        ],
        encodings: vec![both, apart],
        ..Dictionary::default()
    }
}

/// A token of (site, id) pairs: the capture, then the frames.
pub fn token(capture: Option<(u64, u64)>, frames: &[(u64, u64)]) -> Token {
    let frame = |&(site, id)| PushedFrame { image: 0, site, left: false, id, distance: 0, count: 1 };
    Token {
        images: vec![BuildId::from_prefix(&LINKED)],
        capture: capture.map(|(site, id)| Capture { image: 0, site, id, distance: 0 }),
        frames: frames.iter().map(frame).collect(),
        ..Token::default()
    }
}

/// Tokens with pushes and open calls in each module.
pub fn tokens() -> Vec<Token> {
    vec![
        token(Some((site::VISIT_CAPTURE, 4)), &[]),
        token(Some((site::LEAF_CAPTURE, 1)), &[]),
        token(Some((site::LEAF_CAPTURE, 0)), &[(site::LEAF_WALK, 0), (site::VISIT_WALK, 4)]),
        token(Some((site::APART_CAPTURE, 0)), &[(site::LEAF_OUTSIDE, 2)]),
        token(Some((site::APART_CAPTURE, 0)), &[(0, 1_u64.wrapping_sub(4)), (site::VISIT_WALK, 3)]),
        token(None, &[(site::VISIT_WALK, 3)]),
    ]
}
