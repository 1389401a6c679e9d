//! How often each function is expected to run, from the frequencies of the call sites.
//!
//! Where a profile says how often a function runs, that is its weight. The others are estimated:
//! entries and functions without callers run once each, and a caller passes its weight times the site's frequency on
//! to the callee. Between components that is exact, in topological order. Inside a component the exact answer is a
//! linear system that often has no positive solution (frequencies are guesses, and guessed recursion need not end), so
//! a few sweeps are made in an order where few edges lead back, and what those carry is damped. Weights only steer
//! choices, so an estimate will do, but it must be finite and the same on every run.

use crate::graph::{CallGraph, Groups, MAX_WEIGHT};
use crate::scc::Components;

/// Sweeps over each component: recursion is followed this many times round.
const SWEEPS: usize = 4;
/// What is left of a weight after an edge that leads back in the visiting order.
const DAMPING: f64 = 0.5;
/// No function has less, so that below a call that is never expected, hot and cold can still be told apart.
const MIN_WEIGHT: f64 = 1e-100;

/// Expected executions of each edge, at least 0 and finite: the caller's times the edge's frequency.
pub(crate) fn edge_weights(graph: &CallGraph, out_edges: &Groups, in_edges: &Groups) -> Vec<f64> {
    let components = Components::new(graph, out_edges, |_| true);
    let mut position = vec![0u32; graph.functions()];
    for (&function, at) in components.order.iter().zip(0..) {
        position[function as usize] = at;
    }
    let mut weight = vec![0.0; graph.functions()];
    let mut first = 0;
    for &end in &components.ends {
        let members = &components.order[first..end as usize];
        first = end as usize;
        let recursive = |&edge: &u32| {
            components.of[graph.caller[edge as usize] as usize] == components.of[members[0] as usize]
        };
        let sweeps = if in_edges.of(members[0] as usize).iter().any(recursive) { SWEEPS } else { 1 };
        // A weight that has not been computed yet is 0, so the first sweep takes nothing from edges that lead back.
        for _ in 0..sweeps {
            for &function in members {
                let function = function as usize;
                let callers = in_edges.of(function);
                let outside = graph.entry[function] && graph.share[function].is_none();
                let mut sum = if outside || callers.is_empty() { 1.0 } else { 0.0 };
                for &edge in callers {
                    let caller = graph.caller[edge as usize] as usize;
                    let damping = if position[caller] < position[function] { 1.0 } else { DAMPING };
                    sum += weight[caller] * graph.frequency[edge as usize] * damping;
                }
                weight[function] = graph.counted[function].unwrap_or(sum).clamp(MIN_WEIGHT, MAX_WEIGHT);
            }
        }
    }
    graph
        .caller
        .iter()
        .zip(&graph.frequency)
        .map(|(&caller, frequency)| weight[caller as usize] * frequency)
        .collect()
}
