//! Hybrid encoding (the paper, §6): its worked example, and properties of random graphs.
//!
//! # What is proved
//!
//! The program keeps id and stack as [`crate::checker`] has it, but an edge adds what its [`HybridCode`]
//! says, and each activation has a place on the machine stack: its caller's, plus the frame offset of the
//! call. Where a sub-path begins, its base is the place of its first activation. Whoever decodes knows
//! function and id, and the place; the base only if it is known (the push has a frame offset, or the function
//! that is entered from outside says so). Otherwise the offset is any number. Below a call without a frame
//! offset, places differ from run to run.
//!
//! [`check_by_enumeration`] lists all sub-paths of small graphs. No two sub-paths of a function may look the
//! same to the decoder, and each must decode to itself. It shares no code with `hybrid`, and knows nothing of
//! blocks.

use std::collections::HashMap;

use pcce_encoding::decode::{AddEdge, Call, FunctionRow, PathError, StackEdge, StackPathDecoder};
use pcce_encoding::hybrid::{Hybrid, HybridCode, HybridOptions, Stack, hybrid};
use pcce_encoding::{EdgeCode, Encoding};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::checker::{Model, edge, function};
use crate::paper;
use crate::properties::{any_graph, any_model, dense_graph, with_open_node};

/// The paper's Algorithm 4.
fn algorithm_4() -> HybridOptions {
    HybridOptions { blocks: 1, guards: true, ..HybridOptions::default() }
}

/// A model with what is known of its stack.
#[derive(Clone, Debug)]
struct Hybridised {
    model: Model,
    /// Frame offset of each edge.
    frames: Vec<Option<u32>>,
    /// Functions that may be entered from outside at a place that nobody knows.
    unknown_base: Vec<bool>,
    /// Functions whose frames vary.
    varying: Vec<bool>,
    options: HybridOptions,
}

impl Hybridised {
    fn encode(&self) -> (Encoding, Hybrid) {
        let graph = self.model.graph();
        let encoding = self.model.encode();
        let mut stack = Stack::new(&graph);
        for (e, frame) in self.frames.iter().enumerate() {
            if let &Some(frame) = frame {
                stack.set_frame_offset(edge(e), frame);
            }
        }
        for n in (0..self.unknown_base.len()).filter(|&n| self.unknown_base[n]) {
            stack.set_unknown_base(function(n));
        }
        for n in (0..self.varying.len()).filter(|&n| self.varying[n]) {
            stack.set_varying(function(n));
        }
        let hybrid = hybrid(&graph, &encoding, &stack, &self.options);
        (encoding, hybrid)
    }

    /// True if sub-paths that begin in the function may begin at an unknown base. Who decodes sees that one
    /// began at the function, or in the open node, but not how.
    fn begins_unknown(&self, encoding: &Encoding, n: usize) -> bool {
        // Open targets have one dummy in-edge, the open node's.
        let open = |n: usize| self.model.open_target(n) || self.model.open == Some(n);
        let same = |callee: usize| callee == n || open(callee) && open(n);
        let pushed_from_nowhere = (0..self.frames.len()).any(|e| {
            let pushes = matches!(encoding.edge(edge(e)), EdgeCode::Push(_));
            pushes && self.frames[e].is_none() && same(self.model.edges[e].1)
        });
        pushed_from_nowhere
            || (0..self.unknown_base.len()).any(|callee| self.unknown_base[callee] && same(callee))
    }
}

/// The id in the callee.
fn call(hybrid: &Hybrid, e: usize, id: u64) -> Option<u64> {
    match hybrid.edge(edge(e)) {
        HybridCode::Add(value) => Some(id + value),
        HybridCode::Guarded(_) if id == 0 => Some(0),
        HybridCode::Guarded(value) => Some(id + value),
        HybridCode::Push => None,
    }
}

/// A sub-path: where it ends, its id, how far the end is from its beginning if that can be known, and its
/// calls.
struct SubPath {
    at: usize,
    id: u64,
    offset: Option<u64>,
    calls: Vec<usize>,
}

/// All sub-paths, or none if they are more than `most`.
fn sub_paths(given: &Hybridised, encoding: &Encoding, hybrid: &Hybrid, most: usize) -> Option<Vec<SubPath>> {
    let model = &given.model;
    let all: u128 = (0..model.functions.len()).map(|n| u128::from(encoding.num_cc(function(n)))).sum();
    if all > most as u128 {
        return None;
    }
    let out_edges = model.out_edges();
    let begin = |at: usize| {
        let offset = (!given.begins_unknown(encoding, at)).then_some(0);
        SubPath { at, id: 0, offset, calls: vec![] }
    };
    let begins = |n: &usize| encoding.is_entry(function(*n)) && model.open != Some(*n);
    let mut paths: Vec<SubPath> = (0..model.functions.len()).filter(begins).map(begin).collect();
    let mut done = 0;
    while done < paths.len() {
        for &e in &out_edges[paths[done].at] {
            let Some(id) = call(hybrid, e, paths[done].id) else { continue };
            let offset =
                paths[done].offset.zip(given.frames[e]).map(|(offset, frame)| offset + u64::from(frame));
            let calls = [&paths[done].calls[..], &[e]].concat();
            let callee = model.edges[e].1;
            let reached = if model.open == Some(callee) { model.open_targets() } else { vec![callee] };
            paths.extend(reached.into_iter().map(|at| SubPath { at, id, offset, calls: calls.clone() }));
        }
        done += 1;
    }
    Some(paths)
}

fn check_by_enumeration(given: &Hybridised, noise: &[u64]) -> Result<(), String> {
    let (encoding, hybrid) = given.encode();
    check_codes(given, &encoding, &hybrid)?;
    let Some(paths) = sub_paths(given, &encoding, &hybrid, 3000) else { return Ok(()) };
    // A sub-path without an offset looks like every other one with its id.
    let mut seen: HashMap<(usize, u64), Vec<&SubPath>> = HashMap::new();
    for path in &paths {
        let others = seen.entry((path.at, path.id)).or_default();
        let like = |other: &&&SubPath| {
            other.offset.is_none() || path.offset.is_none() || other.offset == path.offset
        };
        if let Some(other) = others.iter().find(like) {
            let SubPath { at, id, calls, .. } = path;
            return Err(format!("{calls:?} and {:?} look the same in {at}: id {id}", other.calls));
        }
        others.push(path);
    }
    for path in &paths {
        let exact = path.offset.map(|offset| vec![offset]);
        for &offset in exact.as_deref().unwrap_or(noise) {
            let decoded = hybrid.path(function(path.at), path.id, offset);
            let decoded = decoded.map(|calls| calls.iter().rev().map(|e| e.index()).collect::<Vec<_>>());
            if decoded.as_ref() != Some(&path.calls) {
                let SubPath { at, id, calls, .. } = path;
                return Err(format!(
                    "{calls:?} in {at} with id {id}, offset {offset} decodes to {decoded:?}"
                ));
            }
        }
    }
    // What is no sub-path does not decode to one that looks otherwise.
    for n in 0..given.model.functions.len() {
        for (id, &offset) in (0..).zip(noise) {
            if let Some(calls) = hybrid.path(function(n), id, offset) {
                let calls: Vec<usize> = calls.iter().rev().map(|e| e.index()).collect();
                let like = |p: &&SubPath| p.at == n && p.id == id && p.offset.is_none_or(|o| o == offset);
                if !paths.iter().filter(like).any(|p| p.calls == calls) && given.model.open != Some(n) {
                    return Err(format!("id {id}, offset {offset} in {n} decodes to {calls:?}"));
                }
            }
        }
    }
    Ok(())
}

/// Values only become smaller, open calls keep theirs, and constants are what makes ids of numbers.
fn check_codes(given: &Hybridised, encoding: &Encoding, hybrid: &Hybrid) -> Result<(), String> {
    let mut updates = 0;
    for (e, &(caller, callee, _)) in given.model.edges.iter().enumerate() {
        let open = given.model.open == Some(callee);
        let (was, is) = (encoding.edge(edge(e)), hybrid.edge(edge(e)));
        let fits = match (was, is) {
            (EdgeCode::Push(_), HybridCode::Push) => true,
            (EdgeCode::Add(was), HybridCode::Add(is)) => is == was || is < was && !open,
            (EdgeCode::Add(was), HybridCode::Guarded(is)) => {
                is == was && was != 0 && given.options.guards && !open
            }
            _ => false,
        };
        if !fits {
            return Err(format!("edge {e}: {was:?} became {is:?}"));
        }
        let constant = hybrid.constant(edge(e));
        if let HybridCode::Add(value) | HybridCode::Guarded(value) = is {
            let [from, to] = [caller, callee].map(|n| hybrid.offset(function(n)));
            if constant.map(|constant| from.wrapping_add(constant)) != Some(value.wrapping_add(to)) {
                return Err(format!("edge {e}: {is:?} adds {constant:?}"));
            }
        } else if constant.is_some() {
            return Err(format!("edge {e} pushes and adds"));
        }
        updates += usize::from(!matches!(constant, None | Some(0)));
    }
    let entries = (0..given.model.functions.len()).filter(|&n| encoding.is_entry(function(n)));
    if let Some(n) = entries.into_iter().find(|&n| hybrid.offset(function(n)) != 0) {
        return Err(format!("entry {n} has offset {}", hybrid.offset(function(n))));
    }
    if updates != hybrid.updates() {
        return Err(format!("{updates} updates, not {}", hybrid.updates()));
    }
    Ok(())
}

/// Figure 7. Frame offsets are those of the text; FI and JI, which it does not give, are chosen so that "the
/// extensions from ImCC\[F\], ImCC\[G\] and ImCC\[J\] do not conflict".
fn figure_7(options: HybridOptions) -> Hybridised {
    let (functions, edges) = paper::FIGURE_4;
    let frames = [1, 1, 2, 3, 1, 1, 1, 3, 3, 1, 1].map(Some).to_vec();
    let model = paper::model(functions, &edges);
    let unknown_base = vec![false; functions.len()];
    Hybridised { model, frames, unknown_base, varying: vec![], options }
}

/// The sub-path of a context such as "AJGI".
fn context(hybrid: &Hybrid, id: u64, offset: u64, last: char) -> Option<String> {
    let (functions, edges) = paper::FIGURE_4;
    let calls = hybrid.path(function(functions.find(last)?), id, offset)?;
    let callers = calls.iter().rev().map(|e| &edges[e.index()].0[..1]);
    Some(callers.chain([&*last.to_string()]).collect())
}

#[test]
fn figure_7_as_in_the_paper() {
    let given = figure_7(algorithm_4());
    let (_, hybrid) = given.encode();
    let implicit: Vec<_> = (0..7).map(|n| hybrid.implicit(function(n)).unwrap()).collect();
    // A, B, J, D, F, G as in Figure 7 (a).
    let expected: [&[u64]; 7] = [&[0], &[1], &[1], &[3, 4], &[4, 5], &[4, 5], &[2, 5, 6, 7, 8]];
    assert_eq!(implicit, expected);
    let codes: Vec<HybridCode> = (0..11).map(|e| hybrid.edge(edge(e))).collect();
    let mut edges = [HybridCode::Add(0); 11];
    edges[5] = HybridCode::Add(2); // D²F
    edges[7] = HybridCode::Add(2); // JG
    edges[9] = HybridCode::Guarded(4); // GI
    assert_eq!(codes, edges);
    assert_eq!(hybrid.updates(), 3, "\"the hybrid version instruments 3 edges\"");
    // The decoding examples.
    assert_eq!(context(&hybrid, 0, 5, 'G').as_deref(), Some("AJDG"));
    assert_eq!(context(&hybrid, 6, 5, 'I').as_deref(), Some("AJGI"));
    check_by_enumeration(&given, &[0, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
}

#[test]
fn figure_7_needs_no_guard() {
    let given = figure_7(HybridOptions::default());
    let (_, hybrid) = given.encode();
    assert_eq!(hybrid.edge(edge(9)), HybridCode::Add(0)); // GI
    assert_eq!(hybrid.updates(), 2);
    // The id that G had from J tells it in I, too.
    assert_eq!(context(&hybrid, 2, 5, 'I').as_deref(), Some("AJGI"));
    check_by_enumeration(&given, &[0, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
}

/// Figure 4: with equal frames along both ways, the offsets tell nothing, and all edges are as without them.
#[test]
fn figure_4_without_offsets() {
    for frames in [vec![None; 11], vec![Some(0); 11]] {
        let given = Hybridised { frames, ..figure_7(algorithm_4()) };
        let (encoding, hybrid) = given.encode();
        assert_eq!(hybrid.updates(), 5);
        assert_eq!(encoding.summary().zero_edges, 6);
        check_by_enumeration(&given, &[0, 1, 2]).unwrap();
    }
}

/// Figure 5: offsets count from the function that the recursion enters.
#[test]
fn figure_5_with_offsets() {
    let (functions, edges) = paper::FIGURE_5;
    let model = paper::model(functions, &edges);
    let unknown_base = vec![false; functions.len()];
    let options = HybridOptions::default();
    let frames = vec![Some(16); edges.len()];
    let mut given = Hybridised { frames, model, unknown_base, varying: vec![], options };
    let (_, hybrid) = given.encode();
    // A calls C below itself, and F calls it at the beginning of a sub-path. E is two calls below A through
    // B, and three through C.
    assert_eq!(hybrid.edge(edge(2)), HybridCode::Add(0));
    assert_eq!(hybrid.implicit(function(2)), Some(&[0, 16][..]));
    // From F and a place that nobody knows, the offset tells nothing.
    *given.frames.last_mut().unwrap() = None;
    let (_, hybrid) = given.encode();
    assert_eq!(hybrid.edge(edge(2)), HybridCode::Add(1));
    check_by_enumeration(&given, &[0, 16, 32, 7]).unwrap();
}

fn options() -> impl Strategy<Value = HybridOptions> {
    (0usize..5, 0usize..8, any::<bool>()).prop_map(|(blocks, offsets, guards)| HybridOptions {
        blocks,
        stack_offsets: offsets,
        guards,
    })
}

fn hybridised(models: impl Strategy<Value = Model>) -> impl Strategy<Value = Hybridised> {
    // Few sizes, so that there are conflicts, and calls that leave no frame.
    let frame = prop_oneof![1 => Just(None), 12 => (0u32..6).prop_map(Some)];
    let unknown = prop::bool::weighted(0.2);
    let some = (
        vec(frame, 1..40),
        any::<bool>(),
        vec(unknown, 1..10),
        vec(prop::bool::weighted(0.05), 1..20),
        options(),
    );
    (models, some).prop_map(|(model, (frames, all, unknown, varying, options))| {
        let frames = frames.into_iter().map(|f| if all { Some(f.unwrap_or(3)) } else { f });
        let frames: Vec<_> = frames.collect::<Vec<_>>().into_iter().cycle().take(model.edges.len()).collect();
        let unknown_base = unknown.into_iter().cycle().take(model.functions.len()).collect();
        let varying = varying.into_iter().take(model.functions.len()).collect();
        Hybridised { model, frames, unknown_base, varying, options }
    })
}

/// The function that a call leads to: of an open call one of the targets, if there are any.
fn reached(model: &Model, targets: &[usize], e: usize, choice: usize) -> Option<usize> {
    match model.edges[e].1 {
        callee if model.open != Some(callee) => Some(callee),
        _ if targets.is_empty() => None,
        _ => Some(targets[choice / 7 % targets.len()]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_two_sub_paths_look_the_same(
        given in hybridised(with_open_node(prop_oneof![any_graph(1..7, 14), any_graph(3..12, 30), dense_graph()])),
        noise in vec(0u64..20, 1..8),
    ) {
        check_by_enumeration(&given, &noise).map_err(TestCaseError::fail)?;
    }

    /// Graphs of any size: walks decode.
    #[test]
    fn sub_paths_of_large_graphs_decode(
        given in hybridised(any_model()),
        begin in any::<prop::sample::Index>(),
        choices in vec(any::<u16>(), 0..60),
    ) {
        let (encoding, hybrid) = given.encode();
        check_codes(&given, &encoding, &hybrid).map_err(TestCaseError::fail)?;
        let model = &given.model;
        let begins = |n: &usize| encoding.is_entry(function(*n)) && model.open != Some(*n);
        let roots: Vec<usize> = (0..model.functions.len()).filter(begins).collect();
        prop_assume!(!roots.is_empty());
        let (out_edges, targets) = (model.out_edges(), model.open_targets());
        let mut at = roots[begin.index(roots.len())];
        let (mut id, mut calls) = (0, vec![]);
        let mut offset = if given.begins_unknown(&encoding, at) { 77 } else { 0 };
        for choice in choices.into_iter().map(usize::from) {
            let adds = |e: &usize| call(&hybrid, *e, id).is_some();
            let adding: Vec<usize> = out_edges[at].iter().copied().filter(adds).collect();
            if adding.is_empty() {
                break;
            }
            let e = adding[choice % adding.len()];
            let Some(reached) = reached(model, &targets, e, choice) else { break };
            at = reached;
            id = call(&hybrid, e, id).unwrap();
            offset += given.frames[e].map_or(1000 + choice as u64, u64::from);
            calls.push(edge(e));
            let decoded = hybrid.path(function(at), id, offset);
            let expected: Vec<_> = calls.iter().rev().copied().collect();
            prop_assert_eq!(decoded, Some(expected), "in {} with id {}, offset {}", at, id, offset);
        }
    }

    /// As programs and the decoder have it: ids of the program, from whatever a sub-path starts with, and
    /// tables. Where the beginning of a sub-path on the stack is not known, ids tell alone; where it would
    /// be, and the decoder has not been told, it finds the path or says that it does not know.
    #[test]
    fn tables_decode_what_programs_have(
        given in hybridised(any_model()),
        known_starts in any::<bool>(),
        begin in any::<prop::sample::Index>(),
        choices in vec(any::<u16>(), 0..60),
    ) {
        let mut given = given;
        given.options = HybridOptions::default();
        given.model.known_starts = known_starts;
        let (mut encoding, hybrid) = given.encode();
        hybrid.apply(&mut encoding);
        let model = &given.model;
        let functions = model.functions.len();
        let rows: Vec<FunctionRow> = (0..functions).map(function).map(|n| FunctionRow {
            num_cc: encoding.num_cc(n),
            entry: encoding.is_entry(n),
            open: model.open_target(n.index()),
        }).collect();
        let unknown: Vec<bool> = (0..functions).map(|n| hybrid.has_unknown_base(function(n))).collect();
        let adds = (0..given.frames.len()).filter_map(|e| {
            let (caller, callee, _) = model.edges[e];
            let EdgeCode::Add(value) = encoding.edge(edge(e)) else { return None };
            let add = AddEdge { caller: function(caller), callee: function(callee), value, site: e as u32 };
            Some(StackEdge { add, frame_offset: given.frames[e] })
        });
        let decoder = StackPathDecoder::new(&rows, &unknown, model.open.map(function), adds);
        let decoder = decoder.expect("the table of an encoding");

        // Where a sub-path starts, whether a direct call tells, and whether its base is known.
        let outside = (0..functions).filter(|&n| encoding.is_entry(function(n)) && model.open != Some(n));
        let outside = outside.filter(|&n| model.functions[n].0 || model.open_target(n) || !known_starts);
        let outside = outside.map(|n| (n, false, !given.begins_unknown(&encoding, n)));
        let pushed = (0..given.frames.len()).filter(|&e| encoding.edge(edge(e)).pushes() && known_starts);
        let pushed = pushed.filter(|&e| model.open != Some(model.edges[e].1));
        let pushed = pushed.map(|e| {
            let callee = model.edges[e].1;
            (callee, true, given.frames[e].is_some() && !hybrid.has_unknown_base(function(callee)))
        });
        let starts: Vec<(usize, bool, bool)> = outside.chain(pushed).collect();
        prop_assume!(!starts.is_empty());
        let (start, told, based) = starts[begin.index(starts.len())];
        let start_offset = if told { encoding.offset(function(start)) } else { 0 };

        let (out_edges, targets) = (model.out_edges(), model.open_targets());
        let (mut at, mut calls, mut id, mut varies) = (start, vec![], 0_u64, false);
        let mut offset = Some(0_u64).filter(|_| based);
        for choice in std::iter::once(0).chain(choices.into_iter().map(usize::from)) {
            let number = id.wrapping_add(start_offset).wrapping_sub(encoding.offset(function(at)));
            let decode = |offset| {
                let mut found = vec![];
                let start = told.then(|| function(start));
                let add = |call: Call| found.push(call.site as usize);
                decoder.path_from(start, function(at), number, offset, add).map(|()| found)
            };
            let expected: Vec<usize> = calls.iter().rev().copied().collect();
            let place = format!("in {at} with number {number}, offset {offset:?}, from {start}");
            prop_assert_eq!(decode(offset), Ok(expected.clone()), "{}", place);
            let without = decode(None);
            let needed = decoder.needs_stack_offset(function(at));
            let ambiguous = needed && without == Err(PathError::Ambiguous);
            prop_assert!(ambiguous || without == Ok(expected), "{:?}", without);
            prop_assert_eq!(needed, hybrid.needs_stack_offset(function(at)));
            prop_assert!(!(varies && needed), "below a frame that varies");
            varies |= given.varying.get(at) == Some(&true);

            let adds = |e: &usize| encoding.constant(edge(*e)).is_some();
            let adding: Vec<usize> = out_edges[at].iter().copied().filter(adds).collect();
            if adding.is_empty() {
                break;
            }
            let e = adding[choice % adding.len()];
            let Some(reached) = reached(model, &targets, e, choice) else { break };
            at = reached;
            id = id.wrapping_add(encoding.constant(edge(e)).unwrap());
            offset = offset.zip(given.frames[e]).map(|(offset, frame)| offset + u64::from(frame));
            calls.push(e);
        }
    }
}
