//! Tables that come from files, and may be anything.

use std::collections::HashSet;

use pcce_encoding::decode::{AddEdge, Call, FunctionRow, IdError, PathDecoder, Step, TableError};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::checker::function;

fn row(num_cc: u64, entry: bool) -> FunctionRow {
    FunctionRow { num_cc, entry, open: false }
}

fn add(caller: usize, callee: usize, value: u64) -> AddEdge {
    AddEdge { caller: function(caller), callee: function(callee), value, site: 0 }
}

fn error(functions: &[FunctionRow], edges: &[AddEdge]) -> TableError {
    PathDecoder::new(functions, None, edges.iter().copied()).expect_err("the table is wrong")
}

#[test]
fn each_offence_has_its_error() {
    let one = row(1, true);
    assert_eq!(error(&[one, row(0, false)], &[]), TableError::NoIds { function: 1 });
    let missing = TableError::NoSuchFunction { edge: 0, function: 7, functions: 1 };
    assert_eq!(error(&[one], &[add(0, 7, 0)]), missing);
    assert_eq!(error(&[one], &[add(7, 0, 0)]), missing);
    let beyond = |value| TableError::OutOfRange { edge: 0, value, caller_num_cc: 1, callee_num_cc: 3 };
    assert_eq!(error(&[one, row(3, false)], &[add(0, 1, 3)]), beyond(3));
    assert_eq!(error(&[one, row(3, false)], &[add(0, 1, u64::MAX)]), beyond(u64::MAX));
    let overlap = |edge| TableError::Overlap { function: 1, id: 0, edge };
    assert_eq!(error(&[one, row(1, true)], &[add(0, 1, 0)]), overlap(0));
    assert_eq!(error(&[one, row(2, false)], &[add(0, 1, 0), add(0, 1, 0)]), overlap(1));
    let gap = |id| TableError::Gap { function: 1, id };
    assert_eq!(error(&[one, row(2, false)], &[add(0, 1, 1)]), gap(0));
    assert_eq!(error(&[one, row(3, false)], &[add(0, 1, 0), add(0, 1, 2)]), gap(1));
    assert_eq!(error(&[one, row(2, true)], &[]), gap(1));
    let cycle = [add(1, 2, 0), add(2, 1, 0), add(2, 3, 0)];
    assert_eq!(
        error(&[one, row(1, false), row(1, false), row(1, false)], &cycle),
        TableError::Cycle { function: 1 }
    );
}

#[test]
fn errors_name_the_values() {
    let text = error(&[row(1, true), row(3, false)], &[add(0, 1, 9)]).to_string();
    assert_eq!(text, "edge 0 adds 9 to 1 ids of its caller, which leaves the 3 ids of its callee");
}

#[test]
fn ids_out_of_range_are_refused() {
    let edges = [AddEdge { site: 42, ..add(0, 1, 1) }];
    let decoder = PathDecoder::new(&[row(1, true), row(2, true)], None, edges.into_iter()).unwrap();
    assert_eq!(decoder.caller(function(1), 0), Ok(Step::Root));
    let call = Call { site: 42, caller: function(0), id: 0 };
    assert_eq!(decoder.caller(function(1), 1), Ok(Step::Call(call)));
    assert_eq!(decoder.path(function(1), 1).unwrap().collect::<Vec<_>>(), [call]);
    let no_id = IdError::NoSuchId { function: 1, id: 2, num_cc: 2 };
    assert_eq!(decoder.caller(function(1), 2), Err(no_id));
    assert_eq!(decoder.path(function(1), 2).unwrap_err(), no_id);
    let no_function = IdError::NoSuchFunction { function: 2, functions: 2 };
    assert_eq!(decoder.caller(function(2), 0), Err(no_function));
    assert_eq!(decoder.path(function(2), 0).unwrap_err(), no_function);
}

#[test]
fn full_width_ids_decode() {
    // Function n has 2ⁿ⁺¹ − 1 ids: its own and twice those of the one before; the last has u64::MAX.
    let functions: Vec<_> = (0..64).map(|n| row(u64::MAX >> (63 - n), true)).collect();
    let edges = (1..64usize).flat_map(|n| [add(n - 1, n, 1), add(n - 1, n, 1 << n)]);
    let decoder = PathDecoder::new(&functions, None, edges).unwrap();
    assert_eq!(decoder.path(function(63), u64::MAX - 1).unwrap().count(), 63);
    assert!(decoder.path(function(63), u64::MAX).is_err());
}

/// Returns whether every id of every function has exactly one sub-path, by listing the sub-paths forwards.
fn is_table(functions: &[FunctionRow], edges: &[AddEdge]) -> bool {
    let mut todo: Vec<(usize, u64)> =
        (0..functions.len()).filter(|&n| functions[n].entry).map(|n| (n, 0)).collect();
    let mut ids = HashSet::new();
    while let Some((at, id)) = todo.pop() {
        if at >= functions.len() || id >= functions[at].num_cc || !ids.insert((at, id)) {
            return false;
        }
        for edge in edges.iter().filter(|edge| edge.caller.index() == at) {
            let Some(sum) = id.checked_add(edge.value) else { return false };
            todo.push((edge.callee.index(), sum));
        }
    }
    let all: u64 = functions.iter().map(|row| row.num_cc).sum();
    let known =
        |edge: &AddEdge| edge.caller.index() < functions.len() && edge.callee.index() < functions.len();
    functions.iter().all(|row| row.num_cc > 0) && edges.iter().all(known) && ids.len() as u64 == all
}

/// A table that is right: edges lead to larger numbers, and values and numCC are counted up.
fn right_table() -> impl Strategy<Value = (Vec<FunctionRow>, Vec<AddEdge>)> {
    (1usize..6).prop_flat_map(|n| (vec(any::<bool>(), n), vec((0..n, 0..n), 0..8))).prop_map(
        |(entries, pairs)| {
            let mut edges: Vec<AddEdge> =
                pairs.into_iter().filter(|(a, b)| a < b).map(|(a, b)| add(a, b, 0)).collect();
            let mut functions = Vec::new();
            for (n, entry) in entries.into_iter().enumerate() {
                let entry = entry || edges.iter().all(|edge| edge.callee.index() != n);
                let mut num_cc = u64::from(entry);
                for edge in edges.iter_mut().filter(|edge| edge.callee.index() == n) {
                    edge.value = num_cc;
                    num_cc += functions[edge.caller.index()];
                }
                functions.push(num_cc);
            }
            let is_entry = |n: usize| !edges.iter().any(|edge| edge.callee.index() == n && edge.value == 0);
            let rows = functions.iter().enumerate().map(|(n, &num_cc)| row(num_cc, is_entry(n))).collect();
            (rows, edges)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A right table with up to two values changed is accepted exactly when it is still a table, and then
    /// decodes.
    #[test]
    fn tables_are_accepted_exactly_when_right(
        table in right_table(),
        changes in vec((any::<prop::sample::Index>(), 0..5, 0u64..8, any::<bool>()), 0..3),
    ) {
        let (mut functions, mut edges) = table;
        for (index, kind, number, huge) in changes {
            let value = if huge && number < 2 { u64::MAX - number } else { number };
            let f = index.index(functions.len());
            let e = index.index(edges.len().max(1));
            match (kind, edges.get_mut(e)) {
                (0, _) => functions[f].num_cc = number,
                (1, _) => functions[f].entry ^= true,
                (2, Some(edge)) => edge.value = value,
                (3, Some(edge)) => edge.caller = function(number as usize),
                (_, Some(edge)) => edge.callee = function(number as usize),
                (_, None) => {}
            }
        }
        let decoder = PathDecoder::new(&functions, None, edges.iter().copied());
        prop_assert_eq!(decoder.is_ok(), is_table(&functions, &edges), "{:?}", decoder.err());
        if let Ok(decoder) = decoder {
            for (n, row) in functions.iter().enumerate() {
                for id in 0..row.num_cc {
                    let (mut at, mut left) = (function(n), id);
                    for call in decoder.path(at, id).unwrap() {
                        let fits = |edge: &AddEdge| (edge.caller, edge.callee) == (call.caller, at)
                            && left.checked_sub(edge.value) == Some(call.id);
                        prop_assert!(edges.iter().any(fits));
                        (at, left) = (call.caller, call.id);
                    }
                    prop_assert!(left == 0 && functions[at.index()].entry);
                }
            }
        }
    }
}
