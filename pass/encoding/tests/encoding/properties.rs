//! Properties of random graphs and random walks.

use pcce_encoding::Rule;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::checker::{Model, check, check_by_enumeration, edge, function};
use crate::program::{Program, decoder};

fn frequency() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => Just(1.0),
        4 => 0.0..10.0,
        2 => (-30i32..30).prop_map(|exponent| 10f64.powi(exponent)),
        1 => prop::sample::select(vec![0.0, -1.0, f64::NAN, f64::INFINITY, f64::MAX]),
    ]
}

fn id_bits() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(64u32), 3 => 1u32..12, 1 => 0u32..=70]
}

/// Any graph: multi-edges, self-loops, several entries, unreachable functions.
pub fn any_graph(functions: std::ops::Range<usize>, edges: usize) -> impl Strategy<Value = Model> {
    functions.prop_flat_map(move |n| {
        let flags = (prop::bool::weighted(0.15), prop::bool::weighted(0.1));
        (vec(flags, n), vec((0..n, 0..n, frequency()), 0..edges), id_bits()).prop_map(
            |(functions, edges, id_bits)| Model {
                functions,
                edges,
                open: None,
                id_bits,
                counts: Vec::new(),
                known_starts: false,
                rules: Vec::new(),
            },
        )
    })
}

/// One dense component behind an entry: every pair both ways, some twice.
pub fn dense_graph() -> impl Strategy<Value = Model> {
    (2usize..9).prop_flat_map(|n| {
        (vec(frequency(), n * n), vec((0..n, 0..n, frequency()), 0..10), id_bits()).prop_map(
            move |(frequencies, more, id_bits)| {
                let pairs = frequencies.iter().enumerate().map(|(i, &f)| (i / n, i % n, f));
                let entries = (0..n).map(|i| (i == 0, false)).collect();
                Model {
                    functions: entries,
                    edges: pairs.chain(more).collect(),
                    open: None,
                    id_bits,
                    counts: Vec::new(),
                    known_starts: false,
                    rules: Vec::new(),
                }
            },
        )
    })
}

/// A chain of functions that call the next one a few times, so that numCC passes 2⁶⁴ on the way, with some
/// entries and a few more edges, back or forth.
fn doubling_graph() -> impl Strategy<Value = Model> {
    (20usize..140).prop_flat_map(|n| {
        let step = (1usize..4, frequency(), prop::bool::weighted(0.05));
        let bits = prop_oneof![3 => Just(64u32), 1 => 50u32..64, 1 => 4u32..50];
        (vec(step, n), vec((0..n, 0..n, frequency()), 0..6), bits).prop_map(move |(steps, more, id_bits)| {
            let functions = steps.iter().enumerate().map(|(i, step)| (i == 0 || step.2, false)).collect();
            let chain = steps.iter().enumerate().skip(1);
            let chain = chain.flat_map(|(i, &(calls, f, _))| (0..calls).map(move |_| (i - 1, i, f)));
            Model {
                functions,
                edges: chain.chain(more).collect(),
                open: None,
                id_bits,
                counts: Vec::new(),
                known_starts: false,
                rules: Vec::new(),
            }
        })
    })
}

/// With an open node, where one is wanted, and a share of the calls open.
pub fn with_open_node(models: impl Strategy<Value = Model>) -> impl Strategy<Value = Model> {
    let open = prop_oneof![1 => Just(None), 2 => vec(0u8..4, 1..20).prop_map(Some)];
    (models, open).prop_map(|(mut model, open)| {
        if let Some(choices) = open {
            let node = model.functions.len();
            model.functions.push((true, false));
            model.open = Some(node);
            for (edge, choice) in model.edges.iter_mut().zip(choices.iter().cycle()) {
                if *choice == 0 {
                    edge.1 = node;
                }
            }
        }
        model
    })
}

pub fn any_model() -> impl Strategy<Value = Model> {
    let counts = prop_oneof![2 => Just(Vec::new()), 1 => vec(prop::option::of(frequency()), 1..20)];
    let models = with_open_node(
        prop_oneof![3 => any_graph(1..9, 25), 2 => any_graph(5..60, 250), 1 => dense_graph(), 2 => doubling_graph()],
    );
    (models, counts).prop_map(|(model, counts)| Model { counts, ..model })
}

/// The same, and decoding is told where sub-paths start, or not.
fn any_starts(models: impl Strategy<Value = Model>) -> impl Strategy<Value = Model> {
    (models, any::<bool>()).prop_map(|(model, known_starts)| Model { known_starts, ..model })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn encodings_are_valid(model in any_starts(any_model())) {
        let encoding = model.encode();
        check(&model, &encoding).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn no_two_contexts_share_an_encoding(
        model in any_starts(with_open_node(prop_oneof![any_graph(1..7, 14), dense_graph()])),
    ) {
        let encoding = model.encode();
        check_by_enumeration(&model, &encoding, 8, 1000).map_err(TestCaseError::fail)?;
    }

    /// The same with functions put into the middle of some calls: of those that push, and of ones that are no
    /// edges.
    #[test]
    fn no_two_contexts_share_an_encoding_with_functions_in_between(
        model in any_starts(with_open_node(prop_oneof![any_graph(1..7, 14), dense_graph()])),
        which in vec(any::<bool>(), 14),
        callers in vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let mut graph = model.graph();
        let mut encoding = model.encode();
        let functions: Vec<usize> = (0..model.functions.len()).filter(|&n| model.open != Some(n)).collect();
        prop_assume!(!functions.is_empty());
        let pushing = (0..model.edges.len()).zip(which.into_iter().cycle());
        let pushing = pushing.filter(|&(e, chosen)| chosen && encoding.edge(edge(e)).pushes());
        let mut calls: Vec<_> = pushing.map(|(e, _)| (graph.caller(edge(e)), Some(edge(e)))).collect();
        calls.extend(callers.iter().map(|caller| (function(functions[caller.index(functions.len())]), None)));
        let new_edges = encoding.interpose(&mut graph, &calls);

        let mut changed = model.clone();
        let at = model.open.unwrap_or(model.functions.len());
        changed.functions.splice(at..at, calls.iter().map(|_| (false, false)));
        changed.open = model.open.map(|open| open + calls.len());
        for call in &mut changed.edges {
            call.1 += if model.open == Some(call.1) { calls.len() } else { 0 };
        }
        for (i, &(caller, pushed)) in calls.iter().enumerate() {
            if let Some(pushed) = pushed {
                changed.edges[pushed.index()].0 = at + i;
            }
            changed.edges.push((caller.index(), at + i, 0.0));
            prop_assert_eq!(new_edges[i].index() + 1, changed.edges.len());
            prop_assert_eq!(graph.callee(new_edges[i]), function(at + i));
            prop_assert_eq!(encoding.constant(new_edges[i]), Some(0));
        }
        prop_assert_eq!(graph.open_node(), changed.open.map(function));
        for (e, &(caller, callee, _)) in changed.edges.iter().enumerate() {
            prop_assert_eq!((graph.caller(edge(e)).index(), graph.callee(edge(e)).index()), (caller, callee));
        }
        check_by_enumeration(&changed, &encoding, 8, 1000).map_err(TestCaseError::fail)?;
    }

    /// What was decided about calls before is so, and contexts can be told apart. Edges that lead to later
    /// functions make no cycle, so they may have to add.
    #[test]
    fn rules_hold(
        model in any_starts(with_open_node(prop_oneof![any_graph(1..7, 14), any_graph(5..40, 120), dense_graph()])),
        rules in vec(prop::sample::select(vec![Rule::Free, Rule::Pushes, Rule::Adds, Rule::Adds]), 120),
    ) {
        let may_be = |(&(caller, callee, _), rule): (&(usize, usize, f64), &Rule)| match rule {
            Rule::Adds if caller >= callee || model.open == Some(callee) || model.functions[callee].1 => Rule::Free,
            rule => *rule,
        };
        let rules: Vec<Rule> = model.edges.iter().zip(&rules).map(may_be).collect();
        let model = Model { rules, id_bits: 64, ..model };
        let encoding = model.encode();
        for (e, rule) in model.rules.iter().enumerate() {
            match rule {
                Rule::Free => {}
                Rule::Pushes => prop_assert!(encoding.edge(edge(e)).pushes()),
                Rule::Adds => prop_assert!(!encoding.edge(edge(e)).pushes()),
            }
        }
        check_by_enumeration(&model, &encoding, 8, 1000).map_err(TestCaseError::fail)?;
    }

    /// However few ids there are: what must add does, if ids are enough for that alone.
    #[test]
    fn what_must_add_has_room(
        model in any_starts(with_open_node(prop_oneof![any_graph(1..7, 14), any_graph(5..40, 120), dense_graph()])),
        rules in vec(prop::sample::select(vec![Rule::Free, Rule::Pushes, Rule::Adds]), 120),
        spare in 0..4u32,
    ) {
        let may_be = |(&(caller, callee, _), rule): (&(usize, usize, f64), &Rule)| match rule {
            Rule::Adds if caller >= callee || model.open == Some(callee) || model.functions[callee].1 => Rule::Free,
            rule => *rule,
        };
        let rules: Vec<Rule> = model.edges.iter().zip(&rules).map(may_be).collect();
        // Each function entered once otherwise; what must add leads to later functions.
        let mut alone = vec![1_u128; model.functions.len()];
        for function in 0..alone.len() {
            let into = model.edges.iter().zip(&rules).filter(|((_, callee, _), rule)| {
                *callee == function && **rule == Rule::Adds
            });
            alone[function] += into.map(|((caller, _, _), _)| alone[*caller]).sum::<u128>();
        }
        let needed = alone.iter().copied().max().unwrap_or(1).next_power_of_two().ilog2();
        prop_assume!(needed <= 64);
        let model = Model { rules, id_bits: (needed + spare).clamp(1, 64), ..model };
        let encoding = model.encode();
        for (e, rule) in model.rules.iter().enumerate() {
            if *rule == Rule::Adds {
                prop_assert!(!encoding.edge(edge(e)).pushes());
            }
        }
        check_by_enumeration(&model, &encoding, 8, 1000).map_err(TestCaseError::fail)?;
    }

    /// Calls where a choice is small, returns where it is large: walks go deep and come back.
    #[test]
    fn walks_decode(
        model in any_starts(any_model()),
        begin in any::<prop::sample::Index>(),
        choices in vec(any::<u16>(), 0..200),
    ) {
        let roots: Vec<usize> = model.roots().into_iter().filter(|&n| model.open != Some(n)).collect();
        prop_assume!(!roots.is_empty());
        let (encoding, out_edges) = (model.encode(), model.out_edges());
        let decoder = decoder(&model, &encoding);
        let mut program = Program::new(&model, &encoding, roots[begin.index(roots.len())]);
        program.check(&decoder);
        for choice in choices {
            let calls = &out_edges[program.function()];
            if choice < 50_000 && !calls.is_empty() {
                program.call(calls[usize::from(choice) % calls.len()], usize::from(choice) / 7);
            } else {
                program.ret();
            }
            program.check(&decoder);
        }
    }

    #[test]
    fn equal_graphs_have_equal_encodings(model in any_starts(any_model())) {
        let (one, other) = (model.encode(), model.encode());
        for e in 0..model.edges.len() {
            prop_assert_eq!(one.edge(edge(e)), other.edge(edge(e)));
        }
        prop_assert_eq!(one.summary(), other.summary());
    }
}
