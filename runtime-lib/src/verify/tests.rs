//! Tables that the step at the link writes, read as the runtime reads those of the pass.
use std::ffi::CStr;
use std::string::String;
use std::vec::Vec;
use std::{format, ptr, vec};

use super::step::step;
use crate::abi::tables::{Edge, Function, Program};
use crate::abi::{Frame, FunctionRecord, Link, NO_GROUP, Shadow};

/// Sites of the program below, by their index here.
static SITES: [u8; 8] = [0; 8];
const MAIN_RUN: usize = 1;
const MAIN_RUN_AGAIN: usize = 2;
const RUN_LEAF: usize = 3;
const RUN_RUN: usize = 4;
const LEAF_POINTER: usize = 5;
const CALLED_ENTRY: usize = 6;

fn site(index: usize) -> *const u8 {
    &raw const SITES[index]
}

/// The tables in memory, as they are loaded.
struct Loaded {
    records: Vec<[u64; size_of::<FunctionRecord>() / 8]>,
    _tables: Vec<u64>,
}

impl Loaded {
    fn new(program: &Program, functions: usize) -> Self {
        let mut records = vec![[0; size_of::<FunctionRecord>() / 8]; functions];
        let mut tables = vec![0_u64; program.linked_len().div_ceil(8)];
        let addresses: Vec<u64> = records.iter().map(|record| record.as_ptr() as u64).collect();
        let linked = program.link(tables.as_ptr() as u64, &addresses).expect("good addresses");
        assert_eq!(linked.bytes.len(), program.linked_len());
        let words = |bytes: &[u8], words: &mut [u64]| {
            for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
                let mut whole = [0; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_le_bytes(whole);
            }
        };
        words(&linked.bytes, &mut tables);
        for (bytes, record) in linked.records.iter().zip(&mut records) {
            words(bytes, record);
        }
        Self { records, _tables: tables }
    }

    fn record(&self, function: usize) -> &FunctionRecord {
        // SAFETY: the words of one, at their place.
        unsafe { &*self.records[function].as_ptr().cast() }
    }

    /// An activation that was entered in this state.
    fn entered(&self, function: usize, prev: *const Shadow, id: u64, top: Link) -> Shadow {
        let (function, prev) = (ptr::from_ref(self.record(function)), prev.cast_mut());
        let (site, left, replaced, context, depth, frames) = (ptr::null(), 0, 0, 0, 0, 0);
        Shadow { prev, function, site, left, replaced, context, id, top, depth, frames }
    }
}

const MAIN: usize = 0;
const RUN: usize = 1;
const LEAF: usize = 2;
const CALLED: usize = 3;
const OPEN: usize = 4;

/// `main` calls `run` at two places, `run` calls `leaf` and itself, and `leaf` calls through a pointer, which may reach
/// `called`, or a function that leaves its activation to `called`.
fn program() -> Program {
    let edge = |start, caller, at: usize| Edge {
        start,
        constant: start,
        caller,
        site: site(at) as u64,
        group: None,
        callee: None,
    };
    let function = |name: &str, entry, in_edges: &[Edge]| Function {
        name: String::from(name),
        entry,
        in_edges: in_edges.to_vec(),
        ..Function::default()
    };
    let of_run = [edge(2, MAIN, MAIN_RUN_AGAIN), edge(1, MAIN, MAIN_RUN)];
    let of_open = [Edge { group: Some(7), ..edge(1, LEAF, LEAF_POINTER) }];
    let functions = vec![
        function("main", true, &[]),
        function("run", true, &of_run),
        function("leaf", false, &[edge(0, RUN, RUN_LEAF)]),
        Function {
            reached: true,
            entry_site: Some(site(CALLED_ENTRY) as u64),
            groups: vec![3, 7],
            ..function("called", true, &[])
        },
        function("", true, &of_open),
    ];
    Program::new(functions, Some(OPEN), vec![(site(RUN_RUN) as u64, RUN)]).expect("a good program")
}

#[test]
fn what_was_linked_is_what_is_read() {
    let loaded = Loaded::new(&program(), 5);
    for (function, name) in ["main", "run", "leaf", "called", ""].into_iter().enumerate() {
        let record = loaded.record(function);
        // SAFETY: the tables are there, and names end with a zero.
        unsafe {
            assert_eq!(CStr::from_ptr(record.name.get().cast()).to_str(), Ok(name));
            assert!(ptr::eq(record.open.get(), loaded.record(OPEN)));
            let starts: Vec<_> = record.starts().iter().map(|s| (s.site.get(), s.function.get())).collect();
            assert_eq!(starts, [(site(RUN_RUN), ptr::from_ref(loaded.record(RUN)))]);
            let edges = record.in_edges().iter();
            let edges: Vec<_> =
                edges.map(|e| (e.start, e.constant, e.caller.get(), e.site.get(), e.group)).collect();
            let caller = |function| ptr::from_ref(loaded.record(function));
            let expected = match function {
                RUN => vec![
                    (1, 1, caller(MAIN), site(MAIN_RUN), NO_GROUP),
                    (2, 2, caller(MAIN), site(MAIN_RUN_AGAIN), NO_GROUP),
                ],
                LEAF => vec![(0, 0, caller(RUN), site(RUN_LEAF), NO_GROUP)],
                OPEN => vec![(1, 1, caller(LEAF), site(LEAF_POINTER), 7)],
                _ => vec![],
            };
            assert_eq!(edges, expected);
            let called = function == CALLED;
            assert_eq!(record.groups(), if called { &[3, 7][..] } else { &[] });
            assert_eq!(record.entry_site.get(), if called { site(CALLED_ENTRY) } else { ptr::null() });
            assert_eq!((record.reached, record.entry), (called.into(), u64::from(function != LEAF)));
            assert!(record.in_edges().iter().all(|edge| edge.callee.get().is_null()));
        }
    }
}

#[test]
fn verify_mode_decodes_by_linked_tables() {
    let loaded = Loaded::new(&program(), 5);
    let mut main = loaded.entered(MAIN, ptr::null(), 0, Link::NULL);
    main.site = site(MAIN_RUN_AGAIN);
    let mut run = loaded.entered(RUN, &main, 2, Link::NULL);
    run.site = site(RUN_RUN);
    let mut frame = Frame::new(Link::NULL, 2, site(RUN_RUN));
    let top = Link::new(&raw mut frame);
    let mut again = loaded.entered(RUN, &run, 0, top);
    again.site = site(RUN_LEAF);
    let mut leaf = loaded.entered(LEAF, &again, 0, top);
    leaf.site = site(LEAF_POINTER);
    let mut called = loaded.entered(CALLED, &leaf, 1, top);
    called.replaced = 1;
    let check = |shadow: &Shadow| {
        // SAFETY: live records and frames, and tables that are there.
        unsafe { step(shadow) }
    };
    for shadow in [&main, &run, &again, &leaf, &called] {
        assert_eq!(check(shadow), Ok(()));
    }
    // Each is wrong in one thing.
    let wrong = |shadow: Shadow, what: &str| {
        let found = check(&shadow);
        assert!(found.is_err_and(|found| found.contains(what)), "{}", format!("{found:?}, not {what}"));
    };
    wrong(loaded.entered(RUN, &main, 1, Link::NULL), "another call site in the caller");
    wrong(loaded.entered(RUN, &main, 3, Link::NULL), "another context than the caller's");
    wrong(loaded.entered(RUN, &main, 0, Link::NULL), "decodes as the outermost");
    wrong(loaded.entered(LEAF, &main, 0, Link::NULL), "another caller");
    wrong(loaded.entered(CALLED, &leaf, 0, top), "names another call site");
    wrong(loaded.entered(CALLED, &leaf, 2, top), "another context than the caller's");
    // Another function was called, and no group says that it may have left its activation.
    let mut left = loaded.entered(LEAF, &again, 0, top);
    left.replaced = 1;
    wrong(left, "left by a tail call");
}
