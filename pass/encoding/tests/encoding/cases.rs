//! Small graphs with the expected encoding, and large ones that recursion would not survive.

use pcce_encoding::{CallGraph, EdgeCode, Options, PushReason, Summary, encode};

use crate::checker::{Model, added, check, edge, function};
use crate::program::{Program, decoder};

const BACK: EdgeCode = EdgeCode::Push(PushReason::Back);
const CUT: EdgeCode = EdgeCode::Push(PushReason::Cut);
const REQUIRED: EdgeCode = EdgeCode::Push(PushReason::Required);

/// A model whose first function is the only entry.
fn model(functions: usize, edges: &[(usize, usize, f64)], id_bits: u32) -> Model {
    Model {
        functions: (0..functions).map(|n| (n == 0, false)).collect(),
        edges: edges.to_vec(),
        open: None,
        id_bits,
        counts: Vec::new(),
        known_starts: false,
        rules: Vec::new(),
    }
}

fn codes(model: &Model) -> Vec<EdgeCode> {
    let encoding = model.encode();
    check(model, &encoding).unwrap();
    (0..model.edges.len()).map(|e| encoding.edge(edge(e))).collect()
}

/// A chain where each function calls the next one twice, so that numCC doubles.
fn doubling(functions: usize, id_bits: u32) -> Model {
    let edges: Vec<_> = (1..functions).flat_map(|n| [(n - 1, n, 1.0), (n - 1, n, 0.5)]).collect();
    model(functions, &edges, id_bits)
}

#[test]
fn empty_graph() {
    let encoding = encode(&CallGraph::new(), &Options::default());
    assert_eq!(encoding.summary(), Summary::default());
}

#[test]
fn function_without_callers_is_an_entry() {
    let model = Model {
        functions: vec![(false, false); 2],
        edges: vec![(0, 1, 1.0)],
        open: None,
        id_bits: 64,
        counts: Vec::new(),
        known_starts: false,
        rules: Vec::new(),
    };
    let encoding = model.encode();
    check(&model, &encoding).unwrap();
    assert!(encoding.is_entry(function(0)));
    assert!(!encoding.is_entry(function(1)));
    assert_eq!(encoding.num_cc(function(0)), 1);
}

#[test]
fn two_calls_of_one_function_are_two_edges() {
    assert_eq!(codes(&model(2, &[(0, 1, 1.0), (0, 1, 2.0)], 64)), [1, 0].map(EdgeCode::Add));
}

#[test]
fn entry_that_is_called_keeps_id_0_for_itself() {
    let model = Model {
        functions: vec![(true, false); 2],
        edges: vec![(0, 1, 1.0)],
        open: None,
        id_bits: 64,
        counts: Vec::new(),
        known_starts: false,
        rules: Vec::new(),
    };
    assert_eq!(codes(&model), [EdgeCode::Add(1)]);
}

#[test]
fn required_pushes() {
    // Function 1 is called from outside and by itself, and lies on a cycle with 2, which the pushes open
    // already.
    let mut model = model(3, &[(0, 1, 1.0), (1, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0)], 64);
    model.functions[1].1 = true;
    assert_eq!(codes(&model), [REQUIRED, REQUIRED, EdgeCode::Add(0), REQUIRED]);
}

#[test]
fn cold_edge_of_a_cycle_is_the_back_edge() {
    // A depth-first search from 0 meets 1 first, and would take the hot edge 2 → 1 for the back edge.
    let edges = [(0, 1, 0.001), (0, 2, 1.0), (1, 2, 0.01), (2, 1, 1000.0)];
    assert_eq!(codes(&model(3, &edges, 64)), [EdgeCode::Add(2), EdgeCode::Add(1), BACK, EdgeCode::Add(0)]);
    // The same cycle with the heat the other way round.
    let edges = [(0, 1, 0.1), (0, 2, 1.0), (1, 2, 1000.0), (2, 1, 0.0)];
    assert_eq!(codes(&model(3, &edges, 64))[2..], [EdgeCode::Add(0), BACK]);
}

#[test]
fn edges_that_never_run_are_cut_sparingly() {
    // Everything below 1 is never expected. Of two cycles through 4 → 1, that one edge is the cheapest
    // choice.
    let edges = [(0, 1, 0.0), (1, 2, 0.0), (1, 3, 0.0), (2, 4, 0.0), (3, 4, 0.0), (4, 1, 0.0)];
    let codes = codes(&model(5, &edges, 64));
    assert_eq!(codes.iter().filter(|&&code| code == BACK).count(), 1);
}

#[test]
fn widest_graph_that_fits_is_not_cut() {
    for bits in [2, 8, 31, 32, 63] {
        let model = doubling(bits as usize + 1, bits);
        let encoding = model.encode();
        check(&model, &encoding).unwrap();
        assert_eq!((encoding.summary().cut, encoding.summary().max_num_cc), (0, 1 << bits));
    }
    // 64 bits: one id more in each function makes it 2⁶⁴ − 1 exactly.
    let mut model = doubling(64, 64);
    model.functions.fill((true, false));
    let encoding = model.encode();
    check(&model, &encoding).unwrap();
    assert_eq!((encoding.summary().cut, encoding.summary().max_num_cc), (0, u64::MAX));
}

#[test]
fn first_graph_that_does_not_fit_is_cut_in_one_place() {
    for bits in [2, 8, 31, 32, 63] {
        let encoding = doubling(bits as usize + 2, bits).encode();
        assert!((1..=2).contains(&encoding.summary().cut), "{bits}: {:?}", encoding.summary());
    }
    let model = doubling(65, 64);
    let encoding = model.encode();
    check(&model, &encoding).unwrap();
    assert!((1..=2).contains(&encoding.summary().cut));
}

#[test]
fn a_cut_does_not_cascade() {
    // After a cut at least 16 doublings fit, so of 64 + 16 n about n are cut.
    let model = doubling(64 + 16 * 10, 64);
    let encoding = model.encode();
    check(&model, &encoding).unwrap();
    assert!(encoding.summary().cut <= 20, "{:?}", encoding.summary());
}

#[test]
fn cold_edges_are_cut_and_hot_ones_kept() {
    // 2 has 5 callers' edges with one context each, and room for 4 ids: itself, and the 3 hottest edges.
    let edges = [(0, 1, 1e3), (0, 1, 1e1), (0, 1, 1e5), (0, 1, 1e2), (0, 1, 1e4)];
    let [add1, add2, add3] = [1, 2, 3].map(EdgeCode::Add);
    assert_eq!(codes(&model(2, &edges, 2)), [add3, CUT, add1, CUT, add2]);
}

#[test]
fn a_known_start_needs_no_id() {
    // 1 calls itself. Without the id that says that a sub-path starts in it, the call by 0 is free.
    let recursive = model(3, &[(0, 1, 1.0), (1, 1, 0.5), (1, 2, 1.0)], 64);
    let constants = |model: &Model| {
        let encoding = model.encode();
        check(model, &encoding).unwrap();
        let constants: Vec<_> = (0..3).map(|e| encoding.constant(edge(e))).collect();
        (constants, encoding.num_cc(function(1)), encoding.is_entry(function(1)))
    };
    assert_eq!(constants(&recursive), (vec![Some(1), None, Some(0)], 2, true));
    let told = Model { known_starts: true, ..recursive };
    assert_eq!(constants(&told), (vec![Some(0), None, Some(0)], 1, false));
    // What only back edges lead to has the one id, and any offset. The call of 2 by 1 is free although 0
    // calls 2, too.
    let edges = [(0, 2, 1.0), (2, 1, 9.0), (1, 2, 0.1)];
    let told = Model { known_starts: true, ..model(3, &edges, 64) };
    assert_eq!(constants(&told), (vec![Some(0), Some(0), None], 1, false));
}

#[test]
fn of_calls_that_are_about_as_hot_the_first_is_free() {
    let constants = |frequencies: [f64; 3], count: Option<f64>| {
        let edges = frequencies.map(|frequency| (0, 1, frequency));
        let model = Model { counts: vec![count], ..model(2, &edges, 64) };
        let encoding = model.encode();
        [0, 1, 2].map(|e| encoding.constant(edge(e)).expect("nothing recurs"))
    };
    assert_eq!(constants([0.6, 1.9, 1.0], None), [0, 1, 2]);
    assert_eq!(constants([0.6, 2.1, 1.0], None), [1, 0, 2]);
    // A profile is taken at its word.
    assert_eq!(constants([0.6, 1.9, 1.0], Some(100.0)), [2, 0, 1]);
}

#[test]
fn odd_widths_count_as_the_nearest() {
    assert_eq!(codes(&doubling(4, 0)), codes(&doubling(4, 1)));
    assert_eq!(codes(&doubling(70, 1000)), codes(&doubling(70, 64)));
}

#[test]
fn odd_frequencies_are_harmless() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, f64::MAX, f64::MIN_POSITIVE, -0.0];
    let edges: Vec<_> = (0..200).map(|n| (n * 7 % 10, n * 3 % 10, odd[n % odd.len()])).collect();
    codes(&model(10, &edges, 64));
    let encoding = model(2, &[(0, 1, f64::NAN), (0, 1, -3.0), (0, 1, f64::INFINITY)], 64).encode();
    assert_eq!([0, 1, 2].map(|e| encoding.edge_weight(edge(e))), [0.0, 0.0, 1e100]);
}

#[test]
fn weights_follow_the_frequencies() {
    // 0 runs once, 1 ten times, and 2 that times two plus once a half; and each estimate is flattened.
    let encoding = model(4, &[(0, 1, 10.0), (1, 2, 2.0), (0, 2, 0.5), (2, 3, 1.0)], 64).encode();
    let one = 10f64.powf(7.0 / 16.0);
    let expected = [10.0, 2.0 * one, 0.5, (2.0 * one + 0.5).powf(7.0 / 16.0)];
    for (e, expected) in expected.into_iter().enumerate() {
        assert!((encoding.edge_weight(edge(e)) / expected - 1.0).abs() < 1e-12, "{e}: {expected}");
    }
}

#[test]
fn counts_of_a_profile_are_the_weights() {
    // By the frequencies, 1 would run ten times; the profile has seen it thousands of times, and 2 never.
    let mut graph = CallGraph::new();
    let functions: Vec<_> = (0..4).map(|n| graph.add_function(n == 0, false)).collect();
    for (function, count) in [(1, 5000.0), (2, 0.0), (3, f64::NAN)] {
        graph.set_count(functions[function], count);
    }
    let edges = [(0, 1, 10.0), (1, 2, 2.0), (1, 3, 1.0), (2, 1, 1e9), (3, 1, 1.0)]
        .map(|(from, to, frequency)| graph.add_edge(functions[from], functions[to], frequency));
    let encoding = encode(&graph, &Options::default());
    assert_eq!(encoding.edge_weight(edges[0]), 10.0);
    assert_eq!(encoding.edge_weight(edges[1]), 10_000.0);
    assert_eq!(encoding.edge_weight(edges[2]), 5000.0);
    assert!(encoding.edge_weight(edges[3]) < 1e-80);
    // The edge that the estimate would take for the hottest of the cycle is the one that never runs.
    assert_eq!((encoding.edge(edges[3]), encoding.edge(edges[1])), (BACK, EdgeCode::Add(0)));
}

#[test]
fn what_never_runs_is_cut_first() {
    // Two chains in which numCC doubles, from 0 over 1 to 7 and over 8 to 14, lead to 15 and on to 16: more
    // than 8 bits hold.
    let mut edges = vec![(0, 1, 1.0), (0, 8, 1.0)];
    for (first, last) in [(1, 7), (8, 14)] {
        edges.extend((first..last).flat_map(|n| [(n, n + 1, 1.0), (n, n + 1, 1.0)]));
        edges.extend([(last, 15, 1.0); 3]);
    }
    edges.push((15, 16, 1.0));
    for cold in [1..=7, 8..=14] {
        let mut model = model(17, &edges, 8);
        model.counts = (0..17).map(|n| Some(if cold.contains(&n) { 0.0 } else { 1000.0 })).collect();
        let encoding = model.encode();
        check(&model, &encoding).unwrap();
        let cut = |e: &usize| encoding.edge(edge(*e)) == CUT;
        let cut: Vec<_> = (0..edges.len()).filter(cut).map(|e| edges[e].0).collect();
        assert!(!cut.is_empty() && cut.iter().all(|caller| cold.contains(caller)), "{cut:?}");
        // With a cut, 15 would have the dummy in-edge, and its hottest call would not be free.
        assert!((0..edges.len()).any(|e| edges[e].1 == 15 && encoding.constant(edge(e)) == Some(0)));
    }
}

#[test]
fn deep_chain_and_deep_cycle() {
    const DEPTH: usize = 100_000;
    let mut chain: Vec<_> = (1..DEPTH).map(|n| (n - 1, n, 1.0)).collect();
    for cyclic in [false, true] {
        if cyclic {
            chain.push((DEPTH - 1, 0, 0.5));
        }
        let model = model(DEPTH, &chain, 64);
        let encoding = model.encode();
        check(&model, &encoding).unwrap();
        assert_eq!(encoding.summary().back, usize::from(cyclic));
        let mut program = Program::new(&model, &encoding, 0);
        for call in 0..chain.len() {
            program.call(call, 0);
        }
        program.check(&decoder(&model, &encoding));
        assert_eq!(added(&encoding, 0), Some(0));
    }
}

#[test]
fn offsets_make_hot_edges_free() {
    // 1 is an entry, so that its call of 2 cannot have 0 in the paper's numbering if the colder one of 0 has
    // it, and both ways into 3 are free by the offsets of 2 and 3 only if the cold edge is the one that pays.
    let edges = [(0, 2, 1.0), (1, 2, 9.0), (2, 3, 5.0), (1, 3, 1.0)];
    let mut model = model(4, &edges, 64);
    model.functions[1].0 = true;
    let encoding = model.encode();
    check(&model, &encoding).unwrap();
    let constants: Vec<_> = (0..4).map(|e| encoding.constant(edge(e)).unwrap()).collect();
    assert_eq!(constants[1..3], [0, 0]);
    assert!(constants[0] != 0 && constants[3] != 0, "{constants:?}");
    assert_eq!(encoding.summary().zero_edges, 2);
    // An open call into the hot loop's function, and the loop's own open call, which is free by the offset of
    // the caller. Function 2 is `main`, which no open call reaches.
    let edges = [(2, 1, 1.0), (1, 3, 1000.0), (1, 4, 3.0)];
    let functions = (0..5).map(|n| (n >= 2, false)).collect();
    let model = Model {
        functions,
        edges: edges.to_vec(),
        open: Some(3),
        id_bits: 64,
        counts: Vec::new(),
        known_starts: false,
        rules: Vec::new(),
    };
    let encoding = model.encode();
    check(&model, &encoding).unwrap();
    assert_eq!(encoding.edge(edge(1)), EdgeCode::Add(1));
    assert_eq!(encoding.constant(edge(1)), Some(0));
    assert_ne!(encoding.constant(edge(0)), Some(0));
}

/// Three cycles through the open node, of a direct call and an open one. The first open call is so hot that
/// not all of them can push.
#[test]
fn open_calls_push_where_they_are_much_colder_than_direct_ones() {
    let mut graph = CallGraph::new();
    let main = graph.add_function(true, false);
    let functions: Vec<_> = (0..6).map(|_| graph.add_function(false, false)).collect();
    let open = graph.add_open_node();
    let mut edges = Vec::new();
    for (pair, (direct, through)) in functions.chunks(2).zip([(0.01, 1e6), (10.0, 1.0), (10.0, 0.01)]) {
        graph.add_open_target(pair[0], 0.1);
        graph.add_edge(main, pair[0], 1.0);
        edges.push([graph.add_edge(pair[0], pair[1], direct), graph.add_edge(pair[1], open, through)]);
    }
    let encoding = encode(&graph, &Options::default());
    let pushes: Vec<_> = edges.iter().map(|cycle| cycle.map(|edge| encoding.edge(edge).pushes())).collect();
    assert_eq!(pushes, [[true, false], [true, false], [false, true]]);
}

/// Where not all values can be small, those of few contexts are, and that of the hottest call behind them.
#[test]
fn large_values_are_those_of_cold_calls() {
    // 33 doublings from 0 on; then calls of 34, an entry: two by 33, one by 32, which has half as many
    // contexts, and one by 1.
    let mut model = doubling(34, 64);
    model.functions.push((true, false));
    model.edges.extend([(33, 34, 0.01), (33, 34, 100.0), (32, 34, 1.0), (1, 34, 0.01)]);
    let values = codes(&model).split_off(66);
    let (large, half) = (1 << 33, 1 << 32);
    assert_eq!(values, [3 + large + half, 3, 3 + large, 1].map(EdgeCode::Add));
}
