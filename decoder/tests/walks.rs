//! decode(encode(walk)) is the walk: random call graphs, encoded as the pass encodes them, and random
//! walks through them that do what the instrumented code does: add, or push and start again at 0.
//!
//! The walk itself is the oracle: it is a list of call sites, and knows nothing of ids.

mod common;

use common::APP;
use pcce::token::{BuildId, Capture, PushedFrame, Token};
use pcce::{Context, Decoder, FrameKind};
use pcce_dictionary::{
    Dictionary, Edge, EncodedFunction, Encoding, Function, Location, Module, Site, SiteKind,
};
use pcce_encoding::{CallGraph, EdgeCode, FunctionId, Options, PushReason, encode};
use proptest::prelude::*;

const ADDRESS: u64 = 0x1000;

#[derive(Clone, Debug)]
struct Program {
    /// For each function: can be entered from outside; every call of it pushes.
    functions: Vec<(bool, bool)>,
    /// Caller, callee, frequency.
    calls: Vec<(usize, usize, f64)>,
    /// Calls through pointers are open calls.
    open: bool,
    id_bits: u32,
}

fn programs() -> impl Strategy<Value = Program> {
    (2_usize..12).prop_flat_map(|count| {
        (
            proptest::collection::vec((proptest::bool::weighted(0.2), proptest::bool::weighted(0.1)), count),
            proptest::collection::vec((0..count, 0..count, 0.0..10.0), 0..40),
            any::<bool>(),
            prop_oneof![Just(64), 2_u32..6],
        )
            .prop_map(|(mut functions, calls, open, id_bits)| {
                functions[0].0 = true;
                Program { functions, calls, open, id_bits }
            })
    })
}

/// What the pass makes of the program. Sites: the calls, then for each function a capture and a call through a
/// pointer. The line of a site's location is its number plus 1. Also what each call adds, those through pointers
/// last.
fn build(program: &Program) -> (Dictionary, Vec<Option<u64>>) {
    let mut graph = CallGraph::new();
    let functions: Vec<_> =
        program.functions.iter().map(|(entry, required)| graph.add_function(*entry, *required)).collect();
    let mut edges: Vec<_> = program
        .calls
        .iter()
        .map(|(caller, callee, frequency)| graph.add_edge(functions[*caller], functions[*callee], *frequency))
        .collect();
    if program.open {
        let node = graph.add_open_node();
        for (function, (entry, _)) in functions.iter().zip(&program.functions) {
            if *entry {
                graph.add_open_target(*function, 0.1);
            }
            edges.push(graph.add_edge(*function, node, 1.0));
        }
    }
    let encoding = encode(&graph, &Options { id_bits: program.id_bits, known_starts: program.open });
    let mut module = Module {
        name: "walk.c".to_owned(),
        sites_address: ADDRESS,
        files: vec!["walk.c".to_owned()],
        names: (0..functions.len()).map(|i| format!("f{i}")).collect(),
        ..Module::default()
    };
    let mut site = |function: usize, kind| {
        let line = module.sites.len() as u32 + 1;
        let locations = vec![Location { name: function as u32, file: 0, line, column: 0 }];
        module.sites.push(Site { function: function as u32, kind, tail_group: None, locations });
    };
    for (caller, callee, _) in &program.calls {
        site(*caller, SiteKind::Direct(Some(*callee as u32)));
    }
    for function in 0..functions.len() {
        site(function, SiteKind::Capture);
        site(function, SiteKind::Indirect);
    }
    let mut encoded = Encoding {
        module_count: 1,
        open_num_cc: program.open.then(|| encoding.num_cc(FunctionId::new(functions.len() as u32))),
        ..Encoding::default()
    };
    for (at, edge) in edges.iter().enumerate() {
        // Of the calls through pointers, after all others.
        let open = at.checked_sub(program.calls.len());
        let code = match encoding.edge(*edge) {
            EdgeCode::Add(value) if open.is_some() => pcce_dictionary::EdgeCode::Open(value),
            EdgeCode::Add(value) => pcce_dictionary::EdgeCode::Add(value),
            EdgeCode::Push(PushReason::Back) => pcce_dictionary::EdgeCode::Back,
            EdgeCode::Push(PushReason::Required) => pcce_dictionary::EdgeCode::Required,
            EdgeCode::Push(_) => pcce_dictionary::EdgeCode::Cut,
        };
        let site = open.map_or(at, |function| program.calls.len() + 2 * function + 1);
        encoded.edges.push(Edge { site: site as u32, callee: None, code });
    }
    for (at, function) in functions.iter().enumerate() {
        module.functions.push(Function { name: at as u32, ..Function::default() });
        encoded.functions.push(EncodedFunction {
            num_cc: encoding.num_cc(*function),
            id_offset: encoding.offset(*function) as i64,
            entry: encoding.is_entry(*function),
            open: graph.is_open(*function),
            range: None,
        });
    }
    // Without an open node, ids are negated.
    let sign = |constant: u64| if program.open { constant } else { constant.wrapping_neg() };
    let constants = edges.iter().map(|edge| encoding.constant(*edge).map(sign)).collect();
    let dictionary = Dictionary {
        build_id: APP.iter().map(|byte| format!("{byte:02x}")).collect(),
        program: "walk".to_owned(),
        modules: vec![module],
        encodings: vec![encoded],
        ..Dictionary::default()
    };
    (dictionary, constants)
}

/// Walks as `choices` say; the token at the end, and the lines of the sites, innermost first.
fn walk(program: &Program, constants: &[Option<u64>], choices: &[usize]) -> (Token, Vec<u32>) {
    let calls = program.calls.len();
    let open_targets: Vec<usize> =
        (0..program.functions.len()).filter(|function| program.functions[*function].0).collect();
    let (mut function, mut id) = (0, 0_u64);
    let mut frames: Vec<PushedFrame> = Vec::new();
    let mut sites = Vec::new();
    let push = |frames: &mut Vec<PushedFrame>, site: usize, id| {
        let site = ADDRESS + site as u64;
        match frames.last_mut() {
            Some(last) if (last.site, last.id) == (site, id) => last.count += 1,
            _ => frames.push(PushedFrame { image: 0, site, left: false, id, distance: 0, count: 1 }),
        }
    };
    for choice in choices {
        let out: Vec<usize> = (0..calls).filter(|call| program.calls[*call].0 == function).collect();
        // One choice more: a call through a pointer, of a function that can be entered.
        let chosen = choice % (out.len() + 1);
        let (edge, site) = match out.get(chosen) {
            Some(&call) => (call, call),
            None => (calls + function, calls + 2 * function + 1),
        };
        match constants.get(edge).copied().flatten() {
            Some(constant) => id = id.wrapping_add(constant),
            None => {
                push(&mut frames, site, id);
                id = 0;
            }
        }
        function = match out.get(chosen) {
            Some(&call) => program.calls[call].1,
            None => open_targets[choice / 64 % open_targets.len()],
        };
        sites.push(site as u32 + 1);
    }
    let capture = calls + 2 * function;
    sites.push(capture as u32 + 1);
    sites.reverse();
    frames.reverse();
    let capture = Some(Capture { image: 0, site: ADDRESS + capture as u64, id, distance: 0 });
    let images = vec![BuildId::from_prefix(&APP)];
    (Token { images, capture, frames, ..Token::default() }, sites)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn decoding_a_walk_gives_the_walk(
        program in programs(),
        walks in proptest::collection::vec(proptest::collection::vec(0_usize..10_000, 0..60), 1..5),
    ) {
        let (dictionary, constants) = build(&program);
        let decoder = Decoder::new(std::slice::from_ref(&dictionary)).unwrap();
        let mut context = Context::default();
        for choices in walks {
            let (token, sites) = walk(&program, &constants, &choices);
            decoder.decode(&Token::parse(token.encode()).unwrap(), &mut context).unwrap();
            let frames: Vec<_> = decoder.frames(&context).collect();
            prop_assert!(frames.iter().all(|frame| frame.kind == FrameKind::Call));
            let lines: Vec<_> = frames.iter().map(|frame| frame.line.unwrap()).collect();
            prop_assert_eq!(lines, &sites[..]);

            // Cut anywhere, it gives the beginning of the walk.
            let left = choices.len() % (token.frames.len() + 1);
            let lines = |token: &Token, context: &mut Context| {
                decoder.decode(&Token::parse(token.encode()).unwrap(), context).unwrap();
                let frames: Vec<_> = decoder.frames(context).collect();
                assert_eq!(frames.last().map(|frame| frame.kind), Some(FrameKind::Truncated));
                frames.iter().filter_map(|frame| frame.line).collect::<Vec<_>>()
            };
            if left < token.frames.len() {
                let mut frames = token.frames.clone();
                frames.truncate(left);
                let token = Token { frames, cut: true, start_missing: program.open, ..token };
                let shown = lines(&token, &mut context);
                prop_assert_eq!(&shown[..], &sites[..shown.len()]);
                let pushed: u64 = token.frames.iter().map(|frame| frame.count).sum();
                prop_assert!(shown.len() as u64 > pushed);
            }
        }
    }
}

#[test]
fn function_ids_are_indices() {
    // `build` relies on it.
    assert_eq!(FunctionId::new(7).index(), 7);
}
