//! The paper's worked examples. The figures are not in the text that we have; edges and values are those that
//! the text of §4 and §5 states or implies, and frequencies are chosen so that in-edges come in the paper's
//! order.

use pcce_encoding::{EdgeCode, Encoding, PushReason};

use crate::checker::{Model, check, check_by_enumeration, edge, function};
use crate::program::{Program, decoder};

/// Functions are letters, 'A' is the only entry.
pub fn model(functions: &str, edges: &[(&str, f64)]) -> Model {
    let number = |letter: char| functions.find(letter).expect("a function of the figure");
    Model {
        functions: functions.chars().map(|letter| (letter == 'A', false)).collect(),
        open: None,
        edges: edges
            .iter()
            .map(|(name, frequency)| {
                let mut letters = name.chars();
                let (caller, callee) = (letters.next().unwrap(), letters.next().unwrap());
                (number(caller), number(callee), *frequency)
            })
            .collect(),
        id_bits: 64,
        counts: Vec::new(),
        known_starts: false,
        rules: Vec::new(),
    }
}

/// Stack and id after the calls of a context such as "ACGF"; calls of one pair take the first edge.
fn run(model: &Model, encoding: &Encoding, functions: &str, context: &str) -> (Vec<(u64, usize)>, u64) {
    let path: Vec<usize> = context.chars().map(|letter| functions.find(letter).unwrap()).collect();
    let mut program = Program::new(model, encoding, path[0]);
    for pair in path.windows(2) {
        program.call(model.edges.iter().position(|e| (e.0, e.1) == (pair[0], pair[1])).expect("an edge"), 0);
    }
    program.check(&decoder(model, encoding));
    (program.stack, program.id)
}

pub const FIGURE_4: (&str, [(&str, f64); 11]) = (
    "ABJDFGI",
    [
        ("AB", 10.0),
        ("AJ", 1.0),
        ("BD", 1.0),
        ("JD", 1.0),
        ("DF", 1.0), // D¹
        ("DF", 1.0), // D²
        ("DG", 1.0),
        ("JG", 1.0),
        ("FI", 1.0),
        ("GI", 1.0),
        ("JI", 1.0),
    ],
);

#[test]
fn figure_4() {
    let (functions, edges) = FIGURE_4;
    let model = model(functions, &edges);
    let encoding = model.encode();
    let num_cc: Vec<u64> = (0..functions.len()).map(|n| encoding.num_cc(function(n))).collect();
    assert_eq!(num_cc, [1, 1, 1, 2, 4, 3, 8]);
    let values: Vec<EdgeCode> = (0..edges.len()).map(|e| encoding.edge(edge(e))).collect();
    // "5 edges need to be instrumented" (§6): JD, D²F, JG, GI and JI.
    assert_eq!(values, [0, 0, 0, 1, 0, 2, 0, 2, 0, 4, 7].map(EdgeCode::Add));
    assert_eq!(run(&model, &encoding, functions, "AJGI"), (vec![], 6)); // §4: the decoding example
    check(&model, &encoding).unwrap();
    check_by_enumeration(&model, &encoding, 6, 10_000).unwrap();
}

pub const FIGURE_5: (&str, [(&str, f64); 10]) = (
    "ABCDEFGH",
    [
        ("AB", 100.0),
        ("BE", 1.0),
        ("AC", 1.0),
        ("CD", 2.0),
        ("CG", 1.0),
        ("DE", 1.0),
        ("DF", 1.0),
        ("GF", 1.0),
        ("FH", 1.0),
        ("FC", 0.1),
    ],
);

#[test]
fn figure_5() {
    let (functions, edges) = FIGURE_5;
    let model = model(functions, &edges);
    let encoding = model.encode();
    let recursion = edges.len() - 1;
    assert_eq!(encoding.edge(edge(recursion)), EdgeCode::Push(PushReason::Back));
    assert_eq!((encoding.is_entry(function(2)), encoding.num_cc(function(2))), (true, 2)); // C: the dummy's, and A's
    assert_eq!(encoding.edge(edge(2)), EdgeCode::Add(1)); // AC, after the dummy
    assert_eq!(run(&model, &encoding, functions, "ACGF"), (vec![], 3));
    assert_eq!(run(&model, &encoding, functions, "ACGFH"), (vec![], 3)); // not divided, although C is in it
    assert_eq!(run(&model, &encoding, functions, "ACGFCDE"), (vec![(3, recursion)], 1));
    assert_eq!(run(&model, &encoding, functions, "ACGFCDFH"), (vec![(3, recursion)], 0));
    let repetitive = vec![(3, recursion), (2, recursion), (2, recursion)]; // "3:1 and 2:3"
    assert_eq!(run(&model, &encoding, functions, "ACGFCGFCGFCGF"), (repetitive, 2));
    check(&model, &encoding).unwrap();
    check_by_enumeration(&model, &encoding, 12, 10_000).unwrap();
}
