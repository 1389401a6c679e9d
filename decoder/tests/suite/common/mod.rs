//! A small program as dictionaries, made by hand: all tests of decoding use it.
//!
//! The program (`app`, [`APP`]) has two modules; the library ([`LIB`]) has one.
//!
//! ```text
//! app, main.c                                     numCC  entry
//!   main   ─0→ run (site 0), ─1→ run (site 1)         1  yes
//!   run    ─0→ leaf (2), back edge → run (3)          3  yes: 0 is the dummy's, so the calls add 1 and 2
//!   leaf   tail (cut edge, 4), qsort (5), lib_run (6), *pointer (7), asm (8), capture (9), other (10)
//!   tail   capture (11); musttail calls run
//! app, other.c
//!   other  capture (0), main's `run` is not called
//! lib
//!   lib_run capture (0), malloc (1), *pointer (2)
//!   malloc  an entry site (3), capture (4)
//! ```

#![allow(dead_code)]

pub mod code;
pub mod elf;
pub mod linked;
pub mod raw_elf;
pub mod simulated;
pub mod stream;
pub mod world;

use pcce::token::{BuildId, Capture, PushedFrame, Token};
use pcce_dictionary::{
    Dictionary, Edge, EdgeCode, EncodedFunction, Encoding, Function, Location, Module, Site, SiteKind,
};

/// Build id of the program.
pub const APP: [u8; 20] = [0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
/// Build id of the library.
pub const LIB: [u8; 8] = [0xb0, 1, 2, 3, 4, 5, 6, 7];
/// Address of the sites of main.c.
pub const MAIN: u64 = 0x4000;
/// Address of the sites of other.c: right behind those of main.c.
pub const OTHER: u64 = MAIN + 12;
/// Address of the sites of the library.
pub const LIB_SITES: u64 = 0x100;

/// Functions of main.c.
pub mod function {
    pub const MAIN: u32 = 0;
    pub const RUN: u32 = 1;
    pub const LEAF: u32 = 2;
    pub const TAIL: u32 = 3;
}

/// Sites of main.c, by address.
pub mod site {
    pub const MAIN_RUN: u64 = super::MAIN;
    pub const RUN_LEAF: u64 = super::MAIN + 2;
    pub const RUN_RUN: u64 = super::MAIN + 3;
    pub const LEAF_TAIL: u64 = super::MAIN + 4;
    pub const LEAF_QSORT: u64 = super::MAIN + 5;
    pub const LEAF_LIB_RUN: u64 = super::MAIN + 6;
    pub const LEAF_POINTER: u64 = super::MAIN + 7;
    pub const LEAF_ASM: u64 = super::MAIN + 8;
    pub const LEAF_CAPTURE: u64 = super::MAIN + 9;
    pub const LEAF_OTHER: u64 = super::MAIN + 10;
    pub const TAIL_CAPTURE: u64 = super::MAIN + 11;
    pub const OTHER_CAPTURE: u64 = super::OTHER;
    pub const LIB_CAPTURE: u64 = super::LIB_SITES;
    pub const LIB_MALLOC: u64 = super::LIB_SITES + 1;
    pub const LIB_POINTER: u64 = super::LIB_SITES + 2;
    pub const MALLOC_ENTRY: u64 = super::LIB_SITES + 3;
    pub const MALLOC_CAPTURE: u64 = super::LIB_SITES + 4;
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn func(name: u32, external: bool) -> Function {
    Function { name, external, ..Function::default() }
}

fn encoded(num_cc: u64, entry: bool, range: Option<u64>) -> EncodedFunction {
    EncodedFunction { num_cc, entry, range, ..EncodedFunction::default() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The program's dictionary.
pub fn app() -> Dictionary {
    let at = |name, line| Location { name, file: 0, line, column: 5 };
    let sites = [
        (0, SiteKind::Direct(Some(1)), vec![at(0, 10)]),
        (0, SiteKind::Direct(Some(1)), vec![at(0, 11)]),
        (1, SiteKind::Direct(Some(2)), vec![at(1, 20)]),
        (1, SiteKind::Direct(Some(1)), vec![at(1, 21)]),
        (2, SiteKind::Direct(Some(3)), vec![at(2, 30)]),
        (2, SiteKind::External(4), vec![at(2, 31)]),
        (2, SiteKind::External(5), vec![at(2, 32)]),
        (2, SiteKind::Indirect, vec![at(2, 33)]),
        (2, SiteKind::Asm, vec![at(2, 34)]),
        // Inlined: `helper` into `leaf`.
        (2, SiteKind::Capture, vec![Location { name: 6, file: 1, line: 7, column: 9 }, at(2, 35)]),
        (2, SiteKind::External(7), vec![at(2, 36)]),
        // Without debug information.
        (3, SiteKind::Capture, vec![]),
    ];
    let main = Module {
        name: "main.c".to_owned(),
        producer: "pcce 0.1.0, LLVM 19".to_owned(),
        sites_address: MAIN,
        files: names(&["/src/main.c", "/src/helper.h"]),
        names: names(&["main", "_ZN3app3runEi", "leaf", "tail", "qsort", "lib_run", "helper", "other"]),
        functions: vec![func(0, true), func(1, false), func(2, false), func(3, false)],
        sites: sites
            .map(|(function, kind, locations)| Site { function, kind, tail_group: None, locations })
            .into(),
        ..Module::default()
    };
    let of_main = Encoding {
        module_count: 1,
        open_num_cc: Some(1),
        functions: vec![
            encoded(1, true, Some(1)),
            encoded(3, true, Some(2)),
            encoded(3, false, Some(5)),
            encoded(1, true, Some(8)),
        ],
        edges: vec![
            Edge { site: 0, callee: None, code: EdgeCode::Add(1) },
            Edge { site: 1, callee: None, code: EdgeCode::Add(2) },
            Edge { site: 2, callee: None, code: EdgeCode::Add(0) },
            Edge { site: 3, callee: None, code: EdgeCode::Back },
            Edge { site: 4, callee: None, code: EdgeCode::Cut },
        ],
        ..Encoding::default()
    };
    let other = Module {
        name: "other.c".to_owned(),
        producer: "pcce 0.1.0, LLVM 19".to_owned(),
        sites_address: OTHER,
        files: names(&["/src/other.c"]),
        names: names(&["other"]),
        functions: vec![func(0, true)],
        sites: vec![Site {
            function: 0,
            tail_group: None,
            kind: SiteKind::Capture,
            locations: vec![Location { name: 0, file: 0, line: 3, column: 0 }],
        }],
        ..Module::default()
    };
    let of_other = Encoding {
        first_module: 1,
        module_count: 1,
        functions: vec![encoded(1, true, None)],
        ..Encoding::default()
    };
    Dictionary {
        build_id: hex(&APP),
        program: "app".to_owned(),
        modules: vec![main, other],
        encodings: vec![of_main, of_other],
        ..Dictionary::default()
    }
}

/// The library's dictionary.
pub fn lib() -> Dictionary {
    let site = |function, kind, line| Site {
        function,
        kind,
        tail_group: None,
        locations: vec![Location { name: function, file: 0, line, column: 1 }],
    };
    let module = Module {
        name: "lib.c".to_owned(),
        producer: "pcce 0.1.0, LLVM 19".to_owned(),
        sites_address: LIB_SITES,
        files: names(&["/src/lib.c"]),
        names: names(&["lib_run", "malloc"]),
        functions: vec![func(0, true), func(1, true)],
        sites: vec![
            site(0, SiteKind::Capture, 1),
            site(0, SiteKind::External(1), 2),
            site(0, SiteKind::Indirect, 3),
            site(1, SiteKind::Entry, 4),
            site(1, SiteKind::Capture, 5),
        ],
        ..Module::default()
    };
    let functions = vec![encoded(1, true, None), encoded(1, true, None)];
    Dictionary {
        build_id: hex(&LIB),
        program: "lib.so".to_owned(),
        modules: vec![module],
        encodings: vec![Encoding { module_count: 1, functions, ..Encoding::default() }],
        ..Dictionary::default()
    }
}

/// A token of (site, id) pairs: the capture, then the frames. Sites below [`MAIN`] are the library's.
pub fn token(capture: Option<(u64, u64)>, frames: &[(u64, u64)]) -> Token {
    let mut token = Token::default();
    let image = |token: &mut Token, site: u64| {
        let id = BuildId::from_prefix(if site < MAIN { &LIB } else { &APP });
        token.images.iter().position(|known| *known == id).unwrap_or_else(|| {
            token.images.push(id);
            token.images.len() - 1
        }) as u32
    };
    token.capture =
        capture.map(|(site, id)| Capture { image: image(&mut token, site), site, id, distance: 0 });
    for &(site, id) in frames {
        let image = image(&mut token, site);
        token.frames.push(PushedFrame { image, site, left: false, id, distance: 0, count: 1 });
    }
    token
}
