//! The control flow of a function, and the events that follow each other.

use std::collections::HashMap;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

/// A function: blocks with their events. The first block is the entry.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub blocks: Vec<Block>,
    /// The roles of the nodes. Each node is in one block.
    pub roles: Vec<Role>,
}

#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its nodes, in order.
    pub nodes: Vec<u32>,
    /// The successor blocks. None if control does not reach the end, or stops there.
    pub successors: Vec<u32>,
    /// Expected executions for one activation of the function.
    pub frequency: f64,
}

/// The role of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// An event without bits of its own.
    Event,
    /// An event that always has bits after it.
    MarksBehind,
    /// An event that always has bits before it: the thread may end in it.
    MarksBefore,
    Return,
}

impl Flow {
    /// The sets of nodes that may come next, the index of the entry's set, and the index of the set after
    /// each node.
    pub(crate) fn sets(&self) -> (Vec<Vec<u32>>, u32, Vec<u32>) {
        let firsts = self.firsts();
        let mut sets: Vec<Vec<u32>> = Vec::new();
        let mut index: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut number = |set: Vec<u32>| {
            *index.entry(set).or_insert_with_key(|set| {
                sets.push(set.clone());
                sets.len() as u32 - 1
            })
        };
        let after = |block: &Block| union(block.successors.iter().map(|&to| &firsts[to as usize]));
        let first = number(firsts.first().cloned().unwrap_or_default());
        let mut next = vec![first; self.roles.len()];
        for block in &self.blocks {
            for pair in block.nodes.windows(2) {
                next[pair[0] as usize] = number(vec![pair[1]]);
            }
            if let Some(&last) = block.nodes.last() {
                next[last as usize] = number(after(block));
            }
        }
        (sets, first, next)
    }

    /// For each block, the nodes that may come first from its beginning on.
    fn firsts(&self) -> Vec<Vec<u32>> {
        let mut empty = DiGraph::<(), ()>::new();
        let places: Vec<_> = self.blocks.iter().map(|_| empty.add_node(())).collect();
        for (block, &place) in self.blocks.iter().zip(&places) {
            for &to in block.successors.iter().filter(|_| block.nodes.is_empty()) {
                empty.add_edge(place, places[to as usize], ());
            }
        }
        let mut firsts: Vec<Vec<u32>> = vec![Vec::new(); self.blocks.len()];
        // Components come after the components that they lead to.
        for component in tarjan_scc(&empty) {
            let members = component.iter().map(|place| &self.blocks[place.index()]);
            let set = union(members.flat_map(|block| {
                let successors = block.successors.iter().filter(|_| block.nodes.is_empty());
                let own = block.nodes.first().map(std::slice::from_ref);
                successors.map(|&to| &*firsts[to as usize]).chain(own)
            }));
            for place in component {
                firsts[place.index()].clone_from(&set);
            }
        }
        firsts
    }
}

fn union<S: AsRef<[u32]>>(sets: impl Iterator<Item = S>) -> Vec<u32> {
    let mut all: Vec<u32> = Vec::new();
    sets.for_each(|set| all.extend(set.as_ref()));
    all.sort_unstable();
    all.dedup();
    all
}
