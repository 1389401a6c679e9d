//! Back edges: which edges of the recursive part push, so that the rest is acyclic (the paper, §5, Algorithm 3).
//!
//! The paper takes whatever a depth-first search meets as a back edge. That can put a push on a hot edge only because
//! a cold one was met first, which DACCE (§6.4, xalancbmk and perlbench) measured to be expensive. What we want is a
//! feedback arc set of small total weight, that is, few executions of pushes. The exact minimum is NP-hard. Two steps:
//!
//! 1. The greedy ordering of Eades, Lin and Smyth ("A fast and effective heuristic for the feedback arc set problem",
//!    1993) with weights: sources first, sinks last, else the function with the largest out-weight minus in-weight.
//!    Edges that lead back in this order are candidates.
//! 2. The candidates are put back, hottest first, wherever that closes no cycle, by the incremental topological order
//!    of Pearce and Kelly ("A dynamic topological sort algorithm for directed acyclic graphs", 2006). So every back
//!    edge closes a cycle of edges that do not push. The searches are bounded by a budget proportional to the graph, after which
//!    the remaining, coldest, candidates stay back edges. This keeps the whole near-linear.
//!
//! Each component is ordered for itself: an edge between components is never a candidate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::{CallGraph, Groups};
use crate::scc::Components;

/// Edges that step 2 may look at, for each function and edge of the graph.
const BUDGET_PER_ELEMENT: usize = 64;
/// Edges that step 2 may look at in any graph, however small.
const BUDGET_MIN: usize = 10_000_000;
/// Weight of an edge that is never expected to run: among such edges the number of pushes decides.
const MIN_WEIGHT: f64 = 1e-200;

/// For each edge whether it is a back edge. `keep` tells the edges that do not push already; only they can be.
pub(crate) fn back_edges(
    graph: &CallGraph,
    out_edges: &Groups,
    weights: &[f64],
    keep: impl Fn(u32) -> bool,
) -> Vec<bool> {
    let components = Components::new(graph, out_edges, &keep);
    let mut back = vec![false; graph.edges()];
    let mut inner = Vec::new();
    for edge in 0..graph.edges() as u32 {
        let (caller, callee) = (graph.caller[edge as usize], graph.callee[edge as usize]);
        if keep(edge) && components.of[caller as usize] == components.of[callee as usize] {
            if caller == callee {
                back[edge as usize] = true;
            } else {
                inner.push(edge);
            }
        }
    }
    if inner.is_empty() {
        return back;
    }
    let functions = graph.functions();
    let recursion = Recursion {
        graph,
        out_edges: Groups::new(functions, inner.iter().map(|&edge| (graph.caller[edge as usize], edge))),
        in_edges: Groups::new(functions, inner.iter().map(|&edge| (graph.callee[edge as usize], edge))),
        weights,
    };
    let mut position = recursion.greedy_order();
    let mut candidates = Vec::new();
    for &edge in &inner {
        if position[graph.caller[edge as usize] as usize] > position[graph.callee[edge as usize] as usize] {
            back[edge as usize] = true;
            candidates.push(edge);
        }
    }
    candidates.sort_unstable_by(|&a, &b| weights[b as usize].total_cmp(&weights[a as usize]).then(a.cmp(&b)));
    recursion.put_back(&mut position, &candidates, &mut back);
    back
}

/// The edges inside components, without self-loops.
struct Recursion<'a> {
    graph: &'a CallGraph,
    out_edges: Groups,
    in_edges: Groups,
    weights: &'a [f64],
}

/// A heap entry: the largest difference first, then the smallest function.
#[derive(PartialEq)]
struct Choice {
    difference: f64,
    function: Reverse<u32>,
}

impl Eq for Choice {}

impl Ord for Choice {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.difference.total_cmp(&other.difference).then(self.function.cmp(&other.function))
    }
}

impl PartialOrd for Choice {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Recursion<'_> {
    fn caller(&self, edge: u32) -> usize {
        self.graph.caller[edge as usize] as usize
    }

    fn callee(&self, edge: u32) -> usize {
        self.graph.callee[edge as usize] as usize
    }

    /// Step 1: the position of each function in the greedy order.
    fn greedy_order(&self) -> Vec<u32> {
        let functions = self.graph.functions();
        let weight = |edge: u32| self.weights[edge as usize].max(MIN_WEIGHT);
        // Degrees tell sources and sinks exactly; the differences are sums of floats and only rank functions.
        let mut out_degree: Vec<u32> = (0..functions).map(|f| self.out_edges.of(f).len() as u32).collect();
        let mut in_degree: Vec<u32> = (0..functions).map(|f| self.in_edges.of(f).len() as u32).collect();
        let mut difference: Vec<f64> = (0..functions)
            .map(|f| {
                let sum = |edges: &[u32]| edges.iter().map(|&edge| weight(edge)).sum::<f64>();
                sum(self.out_edges.of(f)) - sum(self.in_edges.of(f))
            })
            .collect();
        let mut sources: Vec<u32> = Vec::new();
        let mut sinks: Vec<u32> =
            (0..functions as u32).rev().filter(|&f| out_degree[f as usize] == 0).collect();
        // Each function has one live heap entry, the one whose difference is `queued`. A rise queues a new one; a fall
        // is noticed when the entry comes up.
        let mut queued = difference.clone();
        let mut heap: BinaryHeap<Choice> = (0..functions as u32)
            .map(|f| Choice { difference: difference[f as usize], function: Reverse(f) })
            .collect();

        let mut position = vec![u32::MAX; functions];
        let (mut left, mut right) = (0, functions as u32);
        while left < right {
            let (function, is_sink) = if let Some(function) = sinks.pop() {
                (function as usize, true)
            } else if let Some(function) = sources.pop() {
                (function as usize, false)
            } else if let Some(choice) = heap.pop() {
                let function = choice.function.0 as usize;
                if choice.difference != queued[function] || position[function] != u32::MAX {
                    continue;
                }
                if choice.difference != difference[function] {
                    queued[function] = difference[function];
                    heap.push(Choice { difference: difference[function], ..choice });
                    continue;
                }
                (function, false)
            } else {
                break;
            };
            if position[function] != u32::MAX {
                continue;
            }
            position[function] = if is_sink {
                right -= 1;
                right
            } else {
                left += 1;
                left - 1
            };
            for &edge in self.in_edges.of(function) {
                let caller = self.caller(edge);
                if position[caller] == u32::MAX {
                    difference[caller] -= weight(edge);
                    out_degree[caller] -= 1;
                    if out_degree[caller] == 0 {
                        sinks.push(caller as u32);
                    }
                }
            }
            for &edge in self.out_edges.of(function) {
                let callee = self.callee(edge);
                if position[callee] == u32::MAX {
                    difference[callee] += weight(edge);
                    in_degree[callee] -= 1;
                    if in_degree[callee] == 0 {
                        sources.push(callee as u32);
                    } else if difference[callee] > queued[callee] {
                        queued[callee] = difference[callee];
                        heap.push(Choice {
                            difference: difference[callee],
                            function: Reverse(callee as u32),
                        });
                    }
                }
            }
        }
        position
    }

    /// Step 2: clears `back` for those of the candidates, taken in their order, that close no cycle.
    ///
    /// `position` is a topological order of the edges that are not back edges, and stays one.
    fn put_back(&self, position: &mut [u32], candidates: &[u32], back: &mut [bool]) {
        let mut budget =
            BUDGET_MIN.max((self.graph.functions() + self.graph.edges()).saturating_mul(BUDGET_PER_ELEMENT));
        let mut mark = vec![0u32; position.len()];
        let mut round = 0;
        for &candidate in candidates {
            let (caller, callee) = (self.caller(candidate), self.callee(candidate));
            if position[caller] < position[callee] {
                back[candidate as usize] = false; // an earlier round turned the two round
                continue;
            }
            // What the callee reaches, as far as it stands before the caller.
            round += 1;
            let mut reached = vec![callee as u32];
            mark[callee] = round;
            let mut next = 0;
            while next < reached.len() && mark[caller] != round && budget > 0 {
                let edges = self.out_edges.of(reached[next] as usize);
                next += 1;
                budget = budget.saturating_sub(edges.len());
                for &edge in edges {
                    let to = self.callee(edge);
                    if !back[edge as usize] && mark[to] != round && position[to] <= position[caller] {
                        mark[to] = round;
                        reached.push(to as u32);
                    }
                }
            }
            if mark[caller] == round || next < reached.len() || budget == 0 {
                continue; // it would close a cycle, or there is no budget left to know
            }
            // What reaches the caller, as far as it stands after the callee: this goes before all that was reached.
            let mut moved = vec![caller as u32];
            mark[caller] = round;
            let mut next = 0;
            while next < moved.len() {
                let edges = self.in_edges.of(moved[next] as usize);
                next += 1;
                budget = budget.saturating_sub(edges.len());
                for &edge in edges {
                    let from = self.caller(edge);
                    if !back[edge as usize] && mark[from] != round && position[from] > position[callee] {
                        mark[from] = round;
                        moved.push(from as u32);
                    }
                }
            }
            moved.sort_unstable_by_key(|&f| position[f as usize]);
            reached.sort_unstable_by_key(|&f| position[f as usize]);
            moved.append(&mut reached);
            let mut free: Vec<u32> = moved.iter().map(|&f| position[f as usize]).collect();
            free.sort_unstable();
            for (&function, at) in moved.iter().zip(free) {
                position[function as usize] = at;
            }
            back[candidate as usize] = false;
        }
    }
}
