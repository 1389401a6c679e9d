//! Offsets: free edges beyond the paper.
//!
//! Numbering gives each function one free in-edge, the hottest, unless the function has the dummy in-edge.
//! But the program need not keep the numbers themselves: with an offset for each function, `id = number +
//! offset`, a call site adds its value, plus the callee's offset, minus the caller's. A function's offset can
//! be chosen freely if nobody enters it with id 0, or if decoding is told that it was entered so and takes
//! the offset away. Count all other functions as one node: then a set of edges can be made free if it closes
//! no cycle (of any direction). So a maximum spanning forest, by weight, is the cheapest choice. (Ball and
//! Larus place the increments of path profiling likewise: "Efficient path profiling", 1996, §3.2.)
//!
//! petgraph's spanning trees and its `UnionFind` know nothing of differences along the edges, nor of how
//! large they may become. Hence the forest here.

use crate::edge_code::EdgeCode;
use crate::graph::CallGraph;

/// Functions whose offsets are known relative to each other.
pub(crate) struct Forest {
    parent: Vec<u32>,
    /// Offset minus the parent's, modulo 2⁶⁴.
    offset: Vec<u64>,
    /// For roots: the smallest and the largest offset in the tree, minus the root's.
    range: Vec<(i64, i64)>,
    /// How different the offsets of a tree may be.
    spread: u64,
}

impl Forest {
    /// The root of a function's tree and the function's offset minus the root's. Flattens the way there.
    pub(crate) fn find(&mut self, function: u32) -> (u32, u64) {
        let (mut root, mut offset) = (function, 0u64);
        while self.parent[root as usize] != root {
            offset = offset.wrapping_add(self.offset[root as usize]);
            root = self.parent[root as usize];
        }
        let (mut at, mut left) = (function, offset);
        while self.parent[at as usize] != root {
            let next = self.parent[at as usize];
            let own = std::mem::replace(&mut self.offset[at as usize], left);
            self.parent[at as usize] = root;
            left = left.wrapping_sub(own);
            at = next;
        }
        (root, offset)
    }

    /// These functions have offset 0, and nothing is known of the others.
    pub(crate) fn new(fixed: &[bool], spread: u64) -> Self {
        // One more function stands for all of them.
        let ground = fixed.len() as u32;
        let (offset, range) = (vec![0; fixed.len() + 1], vec![(0, 0); fixed.len() + 1]);
        let mut forest = Self { parent: (0..=ground).collect(), offset, range, spread };
        for (function, _) in fixed.iter().enumerate().filter(|(_, fixed)| **fixed) {
            forest.join(ground, function as u32, 0);
        }
        forest
    }

    /// Makes `offset(b) - offset(a)` this, if nothing is known of it yet and offsets do not become too
    /// different. True if it did.
    pub(crate) fn join(&mut self, a: u32, b: u32, difference: u64) -> bool {
        let ((root_a, offset_a), (root_b, offset_b)) = (self.find(a), self.find(b));
        let shift = offset_a.wrapping_add(difference).wrapping_sub(offset_b);
        let (ours, theirs) = (self.range[root_a as usize], self.range[root_b as usize]);
        let low = ours.0.min(theirs.0.saturating_add(shift as i64));
        let high = ours.1.max(theirs.1.saturating_add(shift as i64));
        let joins = root_a != root_b && high.abs_diff(low) <= self.spread;
        if joins {
            self.parent[root_b as usize] = root_a;
            self.offset[root_b as usize] = shift;
            self.range[root_a as usize] = (low, high);
        }
        joins
    }
}

/// The offset of each function, modulo 2⁶⁴, 0 for fixed ones; and the edges that these make free. No two
/// offsets of a tree differ by more than `spread`; if that can be anything, which edges are free does not
/// depend on their values. `hottest_first`: all edges.
pub(crate) fn offsets(
    graph: &CallGraph,
    hottest_first: &[u32],
    codes: &[EdgeCode],
    fixed: &[bool],
    spread: u64,
) -> (Vec<u64>, Vec<bool>) {
    let mut forest = Forest::new(fixed, spread);
    let mut free = vec![false; codes.len()];
    for edge in hottest_first.iter().map(|&edge| edge as usize) {
        if let EdgeCode::Add(value) = codes[edge] {
            free[edge] = forest.join(graph.caller[edge], graph.callee[edge], value.wrapping_neg());
        }
    }
    let ground = fixed.len() as u32;
    let (root, base) = forest.find(ground);
    let offsets = (0..ground)
        .map(|function| {
            let (own, offset) = forest.find(function);
            // Other trees are those where only known starts lead, and what is too far away.
            if own == root { offset.wrapping_sub(base) } else { offset }
        })
        .collect();
    (offsets, free)
}
