//! The optimal placement of witnesses on nodes (distributed-program-tracing.txt, §5, Theorem 4 and Figure 11), for one
//! run that writes all of them.
//!
//! The graph of a function has its nodes and its entry. Each node is followed by those of its set, and the end of an
//! activation by the entry, since functions are called again (§4.2). Only a function's own graph counts, as in the
//! paper: a call is followed by what comes behind it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use petgraph::unionfind::UnionFind;

use super::Choices;

/// From one node to the next, with the number of executions.
pub type Passed = HashMap<(u32, u32), u64>;

/// Witnesses of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Nodes; the entry is the number of nodes.
    pub witnesses: BTreeSet<u32>,
    /// How many of them Figure 11 left out. Without them, a diamond or a cycle is not broken.
    pub missing: usize,
}

impl Placement {
    /// The number of times that a witness is executed.
    pub fn hits(&self, function: &Choices, activations: u64) -> u64 {
        let count = |&node: &u32| function.counts.get(node as usize).copied().unwrap_or(activations);
        self.witnesses.iter().map(count).sum()
    }
}

/// The control flow graph of a function.
struct Graph<'a> {
    function: &'a Choices,
    entry: u32,
    /// The number of edges into each node.
    before: Vec<usize>,
}

impl<'a> Graph<'a> {
    fn new(function: &'a Choices) -> Self {
        let entry = function.next.len() as u32;
        let mut graph = Self { function, entry, before: vec![0; function.next.len() + 1] };
        for node in 0..=entry {
            graph.after(node).to_vec().into_iter().for_each(|next| graph.before[next as usize] += 1);
        }
        graph
    }

    /// The nodes that may come next.
    fn after(&self, node: u32) -> &[u32] {
        let function = self.function;
        if node == self.entry {
            return &function.sets[function.first as usize];
        }
        match function.next[node as usize] {
            Some(set) => &function.sets[set as usize],
            None => std::slice::from_ref(&self.entry),
        }
    }

    fn is_fork(&self, node: u32) -> bool {
        self.after(node).len() > 1
    }

    fn is_join(&self, node: u32) -> bool {
        self.before[node as usize] > 1
    }

    /// The nodes where ways from a fork meet that have no other node of `witnesses` between the two, the nearest first,
    /// each with the first nodes of two of the ways.
    fn meetings(&self, fork: u32, witnesses: &BTreeSet<u32>) -> Vec<(u32, [u32; 2])> {
        let mut first: HashMap<u32, u32> = HashMap::new();
        let (mut met, mut found) = (HashSet::new(), Vec::new());
        let mut waiting: VecDeque<(u32, u32)> = self.after(fork).iter().map(|&node| (node, node)).collect();
        while let Some((node, from)) = waiting.pop_front() {
            match first.get(&node) {
                Some(&other) if other == from || !met.insert(node) => continue,
                Some(&other) => found.push((node, [other, from])),
                None => {
                    first.insert(node, from);
                }
            }
            if node != fork && !witnesses.contains(&node) {
                waiting.extend(self.after(node).iter().map(|&next| (next, from)));
            }
        }
        found
    }

    /// The nodes of cycles without a witness.
    fn unseen_cycle(&self, witnesses: &BTreeSet<u32>) -> Option<Vec<u32>> {
        let mut graph = DiGraph::<u32, ()>::new();
        let places: Vec<_> = (0..=self.entry).map(|node| graph.add_node(node)).collect();
        for node in (0..=self.entry).filter(|node| !witnesses.contains(node)) {
            for &next in self.after(node).iter().filter(|next| !witnesses.contains(next)) {
                graph.add_edge(places[node as usize], places[next as usize], ());
            }
        }
        let is_cycle = |found: &Vec<_>| found.len() > 1 || graph.contains_edge(found[0], found[0]);
        let cycle = tarjan_scc(&graph).into_iter().find(is_cycle)?;
        Some(cycle.into_iter().map(|place| graph[place]).collect())
    }
}

/// Two ways between two nodes that no witness tells from each other, or a cycle without a witness (Theorem 4): the
/// nodes that could be the witness.
pub fn unbroken(function: &Choices, witnesses: &BTreeSet<u32>) -> Option<Vec<u32>> {
    unbroken_in(&Graph::new(function), witnesses)
}

fn unbroken_in(graph: &Graph<'_>, witnesses: &BTreeSet<u32>) -> Option<Vec<u32>> {
    if let Some(cycle) = graph.unseen_cycle(witnesses) {
        return Some(cycle);
    }
    let forks = (0..=graph.entry).filter(|&node| graph.is_fork(node));
    let mut diamonds = forks.flat_map(|fork| graph.meetings(fork, witnesses));
    diamonds.next().map(|(join, first)| first.into_iter().filter(|&node| node != join).collect())
}

/// The witnesses of a function by Figure 11, for these executions of its edges and its `activations`; and those that it
/// needs besides.
pub fn optimal(function: &Choices, passed: &Passed, activations: u64) -> Placement {
    let graph = Graph::new(function);
    let nodes = 0..=graph.entry;
    let weight = |node: u32| function.counts.get(node as usize).copied().unwrap_or(activations);
    let mut edges: Vec<(u32, u32)> =
        nodes.clone().flat_map(|node| graph.after(node).iter().map(move |&next| (node, next))).collect();
    let passes = |edge: &(u32, u32)| passed.get(edge).copied().unwrap_or_default();
    edges.sort_by_key(|edge| (std::cmp::Reverse(passes(edge)), *edge));
    // Step 1: an edge from a fork to its join cannot be the witness.
    let direct: HashSet<(u32, u32)> = nodes
        .filter(|&node| graph.is_fork(node))
        .flat_map(|fork| {
            let after: HashSet<u32> = graph.after(fork).iter().copied().collect();
            let met = graph.meetings(fork, &BTreeSet::new());
            met.into_iter().filter(move |(join, _)| after.contains(join)).map(move |(join, _)| (fork, join))
        })
        .collect();
    let mut tree = UnionFind::<usize>::new(graph.entry as usize + 1);
    let mut chosen = |&(from, to): &(u32, u32)| tree.union(from as usize, to as usize);
    direct.iter().for_each(|edge| {
        chosen(edge);
    });
    // Step 2: a maximum spanning tree. Step 3: a node of each other edge.
    let mut placement = Placement::default();
    for edge in edges.iter().filter(|edge| !direct.contains(edge)) {
        if chosen(edge) {
            continue;
        }
        let (from, to) = *edge;
        placement.witnesses.insert(match (graph.is_fork(from), graph.is_join(to)) {
            (true, _) => to,
            (false, true) => from,
            (false, false) => {
                if weight(to) < weight(from) {
                    to
                } else {
                    from
                }
            }
        });
    }
    while let Some(any) = unbroken_in(&graph, &placement.witnesses) {
        placement.witnesses.extend(any.into_iter().min_by_key(|&node| weight(node)));
        placement.missing += 1;
    }
    placement
}
