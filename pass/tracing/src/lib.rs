//! The bits that a program writes into its trace, and where: a pure function of each function's control flow.
//!
//! Casper (casper.txt) models a function by its call site control flow graph: nodes are calls and returns,
//! and an edge leads from each node to those that may come next (Definition 1). Its log is a sequence of
//! witnesses, numbers of call sites with 32 bits each. The sites that write witnesses are chosen so that the
//! log is an LL(1) language (Definition 6).
//!
//! Here the reader always knows the current node of a function. So the bits of a node need only tell it from
//! its alternatives ([`place`]): they are a prefix code among these. A node without alternatives writes
//! nothing.

mod baseline;
mod flow;
mod prefix_code;
mod recursion;

pub use baseline::{Baseline, Callee, numbered};
pub use flow::{Block, Flow, Role};
pub use prefix_code::{Code, LONGEST};
pub use recursion::{Called, mark_recursion};

use petgraph::unionfind::UnionFind;

/// The bits of each node of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Sets of alternative nodes, in ascending order.
    pub sets: Vec<Vec<u32>>,
    /// The set at the entry: an index into [`Placement::sets`].
    pub first: u32,
    /// The set after each node.
    pub next: Vec<u32>,
    /// The bits that each node writes before itself.
    pub codes: Vec<Code>,
    /// For each node, the node that represents it: returns that may follow the same node are one event, the
    /// first of them.
    pub same: Vec<u32>,
}

/// Decides the bits of a function's nodes.
///
/// In each set with several nodes, all nodes write, and no code is a prefix of another one. On each cycle
/// some node writes, so that the reader can count iterations.
#[must_use]
pub fn place(flow: &Flow) -> Placement {
    let (mut sets, first, next) = flow.sets();
    let same = merge_returns(flow, &mut sets);
    // Merging may make sets equal. Equal sets stay, since a function has few of them.
    let mut frequencies = vec![0.0; flow.roles.len()];
    for block in &flow.blocks {
        for &node in &block.nodes {
            frequencies[same[node as usize] as usize] += block.frequency;
        }
    }
    let mut codes = prefix_code::codes(&sets, &frequencies);
    for (code, _) in codes.iter_mut().zip(&flow.roles).filter(|(_, role)| **role == Role::MarksBefore) {
        code.bits = code.bits.max(1);
    }
    for node in prefix_code::on_silent_cycles(flow, &sets, &next, &codes, &frequencies) {
        codes[node as usize] = Code { value: 0, bits: 1 };
    }
    for (node, &representative) in same.iter().enumerate() {
        codes[node] = codes[representative as usize];
    }
    Placement { sets, first, next, codes, same }
}

/// Merges returns in the same set: the trace does not tell them apart.
fn merge_returns(flow: &Flow, sets: &mut [Vec<u32>]) -> Vec<u32> {
    let count = flow.roles.len();
    let mut classes = UnionFind::<u32>::new(count);
    let is_return = |node: &u32| flow.roles[*node as usize] == Role::Return;
    for set in &*sets {
        let mut returns = set.iter().copied().filter(is_return);
        if let Some(first) = returns.next() {
            returns.for_each(|other| _ = classes.union(first, other));
        }
    }
    let mut least: Vec<u32> = (0..count as u32).collect();
    for node in (0..count as u32).rev() {
        least[classes.find(node) as usize] = node;
    }
    let same: Vec<u32> = (0..count as u32).map(|node| least[classes.find(node) as usize]).collect();
    for set in sets {
        set.iter_mut().for_each(|node| *node = same[*node as usize]);
        set.sort_unstable();
        set.dedup();
    }
    same
}
