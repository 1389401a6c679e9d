//! Numbering (the paper, §4, Algorithm 1, with the dummy in-edges of §5, Algorithm 3) and selective reduction (§7).

use crate::encoding::{EdgeCode, Options, PushReason};
use crate::graph::{CallGraph, Groups};

/// What numbering decides about functions; what it decides about edges it writes into the codes.
pub(crate) struct Numbering {
    pub(crate) num_cc: Vec<u64>,
    pub(crate) entry: Vec<bool>,
}

/// Gives every edge that does not push yet its addition value, or cuts it.
///
/// A function's in-edges come hottest first, so that the smallest values, which are the cheapest to add, are on the
/// hottest edges: 0 on the hottest one, unless the function has the dummy in-edge, which must have 0.
///
/// Where a function would have more contexts than ids can number, edges are cut. A function just below the limit would
/// make its callees overflow in turn, so a function that must be cut at all is cut down to a smaller budget. Hotter
/// edges are kept before colder ones, each if it still fits.
pub(crate) fn number(
    graph: &CallGraph,
    out_edges: &Groups,
    in_edges: &Groups,
    weights: &[f64],
    options: &Options,
    codes: &mut [EdgeCode],
) -> Numbering {
    let functions = graph.functions();
    let limit = limit(options.id_bits);
    let budget = u128::from(limit >> (options.id_bits.clamp(1, 64) / 4));
    let adds = |code: EdgeCode| matches!(code, EdgeCode::Add(_));

    let mut num_cc = vec![0u64; functions];
    let mut entry = graph.entry.clone();
    let mut waiting: Vec<u32> = vec![0; functions]; // in-edges whose caller has no number yet
    let mut order: Vec<u32> = Vec::with_capacity(functions);
    for function in 0..functions {
        let callers = in_edges.of(function);
        let added = callers.iter().filter(|&&edge| adds(codes[edge as usize])).count();
        waiting[function] = added as u32;
        entry[function] |= callers.is_empty() || added < callers.len();
        if added == 0 {
            order.push(function as u32);
        }
    }

    let mut done = 0;
    let mut incoming: Vec<u32> = Vec::new();
    while done < order.len() {
        let function = order[done] as usize;
        done += 1;

        incoming.clear();
        incoming.extend(in_edges.of(function).iter().filter(|&&edge| adds(codes[edge as usize])));
        incoming
            .sort_unstable_by(|&a, &b| weights[b as usize].total_cmp(&weights[a as usize]).then(a.cmp(&b)));
        // Fewer than 2³² numbers below 2⁶⁴: the sum fits.
        let contexts = |edge: u32| u128::from(num_cc[graph.caller[edge as usize] as usize]);
        let all = u128::from(entry[function]) + incoming.iter().map(|&edge| contexts(edge)).sum::<u128>();
        let bound = if all > u128::from(limit) {
            entry[function] = true; // at least one edge is cut, and enters with id 0
            budget
        } else {
            u128::from(limit)
        };
        let mut next = u128::from(entry[function]);
        for &edge in &incoming {
            let after = next + contexts(edge);
            codes[edge as usize] = if after <= bound {
                let value = next as u64; // below `limit`, as `after` is at most that
                next = after;
                EdgeCode::Add(value)
            } else {
                EdgeCode::Push(PushReason::Cut)
            };
        }
        num_cc[function] = next as u64; // at most `limit`

        for &edge in out_edges.of(function) {
            // Edges to functions that are still waiting are not cut yet: a function cuts when its turn comes.
            if adds(codes[edge as usize]) {
                let callee = graph.callee[edge as usize] as usize;
                waiting[callee] -= 1;
                if waiting[callee] == 0 {
                    order.push(callee as u32);
                }
            }
        }
    }
    debug_assert_eq!(order.len(), functions, "the edges that do not push are acyclic");
    Numbering { num_cc, entry }
}

/// The largest `numCC` whose ids, and which itself, can be represented.
fn limit(id_bits: u32) -> u64 {
    match id_bits {
        0 | 1 => 2,
        2..=63 => 1 << id_bits,
        _ => u64::MAX,
    }
}
