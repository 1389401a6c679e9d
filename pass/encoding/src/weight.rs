//! How often each function is expected to run, from the frequencies of the call sites.
//!
//! Where a profile says how often a function runs, that is its weight. The others are estimated:
//! entries and functions without callers run once each, and a caller passes its weight times the site's frequency on
//! to the callee. Between components that is exact, in topological order. Inside a component the exact answer is a
//! linear system that often has no positive solution (frequencies are guesses, and guessed recursion need not end), so
//! edges that lead back in an order where few do carry nothing. Weights only steer choices, so an estimate will do, but it must be finite
//! and the same on every run. (To follow recursion four times round, damped, cost sqlite3 a quarter more pushes, and gained
//! nothing elsewhere.)

use crate::graph::{CallGraph, Groups, MAX_WEIGHT};
use crate::scc::Components;

/// No function has less, so that below a call that is never expected, hot and cold can still be told apart.
const MIN_WEIGHT: f64 = 1e-100;

/// Expected executions of each edge, at least 0 and finite: the caller's times the edge's frequency.
pub(crate) fn edge_weights(graph: &CallGraph, out_edges: &Groups, in_edges: &Groups) -> Vec<f64> {
    let components = Components::new(graph, out_edges, |_| true);
    let mut weight = vec![0.0; graph.functions()];
    for &function in &components.order {
        let function = function as usize;
        let callers = in_edges.of(function);
        let outside = graph.entry[function] && graph.share[function].is_none();
        let mut sum = if outside || callers.is_empty() { 1.0 } else { 0.0 };
        for &edge in callers {
            // What leads back comes from a weight that has not been computed yet: 0.
            sum += weight[graph.caller[edge as usize] as usize] * graph.frequency[edge as usize];
        }
        weight[function] = graph.counted[function].unwrap_or(sum).clamp(MIN_WEIGHT, MAX_WEIGHT);
    }
    graph
        .caller
        .iter()
        .zip(&graph.frequency)
        .map(|(&caller, frequency)| weight[caller as usize] * frequency)
        .collect()
}
